// Processors with AVX2 and FMA: Haswell, Zen and later.
#include "level.h"

#if defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)

namespace embed {
namespace {

constexpr int MIDDLE = 0;
constexpr int LANES = 8, ROWS = 4, VECTORS = 2;
using Floats = float __attribute__((vector_size(32)));
using Ints = int32_t __attribute__((vector_size(32)));

// Two neighbouring weights are no further from 0 than 128 together (plan.py), so that the sums of 16 bits cannot clip.
inline Ints dot(Ints sums, int32_t four, const int8_t *weights) {
    __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi32(four), _mm256_loadu_si256(reinterpret_cast<const __m256i *>(weights)));
    return Ints(_mm256_add_epi32(__m256i(sums), _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
}

#include "kernels.inc"

}  // namespace

extern const Kernels avx2_kernels;
const Kernels avx2_kernels{"AVX2", norm, quantize, product, attention, gate, rotate, norm_heads};

}  // namespace embed

#pragma clang attribute pop
#endif
