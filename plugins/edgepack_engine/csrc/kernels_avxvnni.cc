// Processors with AVX2 and integer products in 256 bits (AVX-VNNI): Alder Lake, Zen 5 and later.
#include "level.h"

#if defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("avx2,avxvnni"))), apply_to = function)

namespace embed {
namespace {

constexpr int MIDDLE = 0;
constexpr int LANES = 8, ROWS = 6, VECTORS = 2;
using Floats = float __attribute__((vector_size(32)));
using Ints = int32_t __attribute__((vector_size(32)));

inline Ints dot(Ints sums, int32_t four, const int8_t *weights) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(weights));
    return Ints(_mm256_dpbusd_avx_epi32(__m256i(sums), _mm256_set1_epi32(four), bytes));
}

using Part = int8_t;
inline Ints multiply(Ints sums, int32_t four, const int8_t *weights) { return dot(sums, four, weights); }

#include "kernels.inc"

}  // namespace

extern const Kernels avxvnni_kernels;
const Kernels avxvnni_kernels{"AVX-VNNI", norm, quantize, product, attention, gate, rotate, norm_heads};

}  // namespace embed

#pragma clang attribute pop
#endif
