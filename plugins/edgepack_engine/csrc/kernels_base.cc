// Any processor of the architecture: SSE2 on x86-64, NEON on arm64 and on 32-bit ARM where it is compiled for it.
#include "level.h"

#if defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace embed {
namespace {

constexpr int LANES = 4;
using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));

#if defined(__x86_64__)
constexpr int MIDDLE = 0, ROWS = 2, VECTORS = 4;

inline Ints dot(Ints sums, int32_t four, const int8_t *weights) {
    const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i *>(weights)), none = _mm_setzero_si128();
    const __m128i signs = _mm_cmpgt_epi8(none, raw), bytes = _mm_unpacklo_epi8(_mm_set1_epi32(four), none);
    const __m128 low = _mm_castsi128_ps(_mm_madd_epi16(_mm_unpacklo_epi8(raw, signs), bytes));
    const __m128 high = _mm_castsi128_ps(_mm_madd_epi16(_mm_unpackhi_epi8(raw, signs), bytes));
    return sums + Ints(_mm_castps_si128(_mm_shuffle_ps(low, high, 0x88))) +
           Ints(_mm_castps_si128(_mm_shuffle_ps(low, high, 0xDD)));
}
using Part = int16_t;
inline Ints multiply(Ints sums, int32_t two, const int8_t *weights) {
    const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i *>(weights));
    return sums + Ints(_mm_madd_epi16(_mm_set1_epi32(two), pairs));
}
#elif defined(__ARM_NEON)
// Two neighbouring weights are no further from 0 than 128 together (plan.py), so that sums of 16 bits hold them.
constexpr int MIDDLE = 128, VECTORS = 4;

#if defined(__aarch64__)
constexpr int ROWS = 4;
inline int16x8_t in_pairs(int16x8_t one, int16x8_t other) { return vpaddq_s16(one, other); }
#else
// Half as many registers.
constexpr int ROWS = 2;
inline int16x8_t in_pairs(int16x8_t one, int16x8_t other) {
    return vcombine_s16(vpadd_s16(vget_low_s16(one), vget_high_s16(one)), vpadd_s16(vget_low_s16(other), vget_high_s16(other)));
}
#endif

inline Ints dot(Ints sums, int32_t four, const int8_t *weights) {
    const int8x16_t raw = vld1q_s8(weights);
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(four ^ int32_t(0x80808080)));
    const int16x8_t pairs = in_pairs(vmull_s8(vget_low_s8(raw), bytes), vmull_s8(vget_high_s8(raw), bytes));
    return Ints(vpadalq_s16(int32x4_t(sums), pairs));
}
#else
constexpr int MIDDLE = 0, ROWS = 1, VECTORS = 4;

inline Ints dot(Ints sums, int32_t four, const int8_t *weights) {
    for (int lane = 0; lane < LANES; lane++)
        for (int deep = 0; deep < int(DEPTH); deep++)
            sums[lane] += int32_t(uint8_t(four >> 8 * deep)) * weights[lane * DEPTH + deep];
    return sums;
}
#endif

#if !defined(__x86_64__)
using Part = int8_t;
inline Ints multiply(Ints sums, int32_t four, const int8_t *weights) { return dot(sums, four, weights); }
#endif

#include "kernels.inc"

}  // namespace

extern const Kernels base_kernels;
const Kernels base_kernels{"any processor", norm, quantize, product, attention, gate, rotate, norm_heads};

}  // namespace embed
