// Processors with AVX2: Haswell, Zen and later.
#include "level.h"

#if defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)

namespace embed {
namespace {

constexpr int MIDDLE = 0;
constexpr int LANES = 8, ROWS = 4, VECTORS = 2;
using Floats = float __attribute__((vector_size(32)));
using Ints = int32_t __attribute__((vector_size(32)));

// Two neighbouring weights are no further from 0 than 128 together (plan.py), so that the sums of 16 bits cannot clip.
inline Ints dot(Ints sums, int32_t four, const int8_t *weights) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(weights));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi32(four), bytes);
    return Ints(_mm256_add_epi32(__m256i(sums), _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
}

using Part = int16_t;
inline Ints multiply(Ints sums, int32_t two, const int8_t *weights) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(weights));
    return sums + Ints(_mm256_madd_epi16(_mm256_set1_epi32(two), pairs));
}

#include "kernels.inc"

}  // namespace

extern const Kernels avx2_kernels;
const Kernels avx2_kernels{"AVX2", norm, quantize, product, attention, gate, rotate, norm_heads};

}  // namespace embed

#pragma clang attribute pop
#endif
