// 64-bit ARM with products of bytes (dotprod): Cortex-A55, A75, Neoverse N1, Apple A11 and later.
#include "level.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)

namespace embed {
namespace {

// Its products are of signed bytes.
constexpr int MIDDLE = 128;
constexpr int LANES = 4, ROWS = 5, VECTORS = 4;
using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));

inline Ints dot(Ints sums, int32_t four, const int8_t *weights) {
    const int8x16_t bytes = vreinterpretq_s8_s32(vdupq_n_s32(four ^ int32_t(0x80808080)));
    return Ints(vdotq_s32(int32x4_t(sums), vld1q_s8(weights), bytes));
}

using Part = int8_t;
inline Ints multiply(Ints sums, int32_t four, const int8_t *weights) { return dot(sums, four, weights); }

#include "kernels.inc"

}  // namespace

extern const Kernels dotprod_kernels;
const Kernels dotprod_kernels{"NEON dotprod", norm, quantize, product, attention, gate, rotate, norm_heads};

}  // namespace embed

#pragma clang attribute pop
#endif
