// Processors with AVX-512 and its integer products (VNNI): Ice Lake, Zen 4 and later.
#include "level.h"

#if defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,evex512"))), apply_to = function)

namespace embed {
namespace {

constexpr int MIDDLE = 0;
constexpr int LANES = 16, ROWS = 6, VECTORS = 4;
using Floats = float __attribute__((vector_size(64)));
using Ints = int32_t __attribute__((vector_size(64)));

inline Ints dot(Ints sums, int32_t four, const int8_t *weights) {
    return Ints(_mm512_dpbusd_epi32(__m512i(sums), _mm512_set1_epi32(four), _mm512_loadu_si512(weights)));
}

using Part = int8_t;
inline Ints multiply(Ints sums, int32_t four, const int8_t *weights) { return dot(sums, four, weights); }

#include "kernels.inc"

}  // namespace

extern const Kernels avx512_kernels;
const Kernels avx512_kernels{"AVX-512 VNNI", norm, quantize, product, attention, gate, rotate, norm_heads};

}  // namespace embed

#pragma clang attribute pop
#endif
