// Processors with SSE4.1 and no AVX2: Nehalem, Silvermont, Goldmont and later.
#include "level.h"

#if defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("sse4.1"))), apply_to = function)

namespace embed {
namespace {

constexpr int MIDDLE = 0;
constexpr int LANES = 4, ROWS = 2, VECTORS = 4;
using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));

// Two neighbouring weights are no further from 0 than 128 together (plan.py), so that the sums of 16 bits cannot clip.
inline Ints dot(Ints sums, int32_t four, const int8_t *weights) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(weights));
    const __m128i pairs = _mm_maddubs_epi16(_mm_set1_epi32(four), bytes);
    return sums + Ints(_mm_madd_epi16(pairs, _mm_set1_epi16(1)));
}

using Part = int16_t;
inline Ints multiply(Ints sums, int32_t two, const int8_t *weights) {
    const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i *>(weights));
    return sums + Ints(_mm_madd_epi16(_mm_set1_epi32(two), pairs));
}

#include "kernels.inc"

}  // namespace

extern const Kernels sse41_kernels;
const Kernels sse41_kernels{"SSE4.1", norm, quantize, product, attention, gate, rotate, norm_heads};

}  // namespace embed

#pragma clang attribute pop
#endif
