// 64-bit ARM with products of matrices of bytes (i8mm): Neoverse V1 and N2, Cortex-A510, A710 and X2, Apple M2 and later.
#include "level.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#pragma clang attribute push(__attribute__((target("i8mm"))), apply_to = function)

namespace embed {
namespace {

constexpr int MIDDLE = 0;
constexpr int LANES = 4, ROWS = 6, VECTORS = 4;
using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));

inline Ints dot(Ints sums, int32_t four, const int8_t *weights) {
    return Ints(vusdotq_s32(int32x4_t(sums), vreinterpretq_u8_s32(vdupq_n_s32(four)), vld1q_s8(weights)));
}

using Part = int8_t;
inline Ints multiply(Ints sums, int32_t four, const int8_t *weights) { return dot(sums, four, weights); }

// Two rows by two columns, eight deep, are one instruction; a row that is left over is multiplied by itself.
#define OWN_PRODUCTS
template <auto MULTIPLY, int COUNT, int WIDE>
inline void add_products(Ints (&sums)[COUNT][WIDE], const uint8_t *rows, size_t stride, const int8_t *columns,
                         size_t column, size_t deepest, size_t depth) {
    constexpr int PAIRS = COUNT / 2;
    int32x4_t squares[PAIRS + 1][WIDE][2] = {};
    const int8_t *weights[WIDE];
    for (int vector = 0; vector < WIDE; vector++)
        weights[vector] = columns + columns_at(column + vector * LANES, deepest);
    for (size_t deep = 0; deep < depth; deep += 2 * DEPTH) {
        uint8x16_t two[PAIRS + 1];
        for (int pair = 0; pair < PAIRS; pair++)
            two[pair] = vcombine_u8(vld1_u8(rows + 2 * pair * stride + deep), vld1_u8(rows + (2 * pair + 1) * stride + deep));
        for (int vector = 0; vector < WIDE; vector++) {
            const int8_t *first = weights[vector] + deep * PANEL, *second = first + DEPTH * PANEL;
            const int32x4_t upper = vreinterpretq_s32_s8(vld1q_s8(first)), lower = vreinterpretq_s32_s8(vld1q_s8(second));
            const int8x16_t left = vreinterpretq_s8_s32(vzip1q_s32(upper, lower));
            const int8x16_t right = vreinterpretq_s8_s32(vzip2q_s32(upper, lower));
            for (int pair = 0; pair < PAIRS; pair++) {
                squares[pair][vector][0] = vusmmlaq_s32(squares[pair][vector][0], two[pair], left);
                squares[pair][vector][1] = vusmmlaq_s32(squares[pair][vector][1], two[pair], right);
            }
            if constexpr (COUNT % 2) {
                const uint8_t *last = rows + (COUNT - 1) * stride + deep;
                Ints &sum = sums[COUNT - 1][vector];
                sum = MULTIPLY(MULTIPLY(sum, four_of(last), first), four_of(last + DEPTH), second);
            }
        }
    }
    for (int pair = 0; pair < PAIRS; pair++)
        for (int vector = 0; vector < WIDE; vector++) {
            const int32x4_t left = squares[pair][vector][0], right = squares[pair][vector][1];
            sums[2 * pair][vector] += Ints(vcombine_s32(vget_low_s32(left), vget_low_s32(right)));
            sums[2 * pair + 1][vector] += Ints(vcombine_s32(vget_high_s32(left), vget_high_s32(right)));
        }
}

#include "kernels.inc"

}  // namespace

extern const Kernels i8mm_kernels;
const Kernels i8mm_kernels{"NEON i8mm", norm, quantize, product, attention, gate, rotate, norm_heads};

}  // namespace embed

#pragma clang attribute pop
#endif
