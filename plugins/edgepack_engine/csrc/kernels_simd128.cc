// WebAssembly with SIMD128: every browser that a bundle for browsers is made for.
#include "level.h"

#if defined(__wasm_simd128__)
#include <wasm_simd128.h>

namespace embed {
namespace {

constexpr int MIDDLE = 0;
constexpr int LANES = 4, ROWS = 4, VECTORS = 16;
using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));

inline Ints in_pairs(v128_t one, v128_t other) {
    return Ints(wasm_i32x4_shuffle(one, other, 0, 2, 4, 6)) + Ints(wasm_i32x4_shuffle(one, other, 1, 3, 5, 7));
}

inline Ints dot(Ints sums, int32_t four, const int8_t *weights) {
    const v128_t bytes = wasm_u16x8_extend_low_u8x16(wasm_i32x4_splat(four));
    return sums + in_pairs(wasm_i32x4_dot_i16x8(wasm_i16x8_load8x8(weights), bytes),
                           wasm_i32x4_dot_i16x8(wasm_i16x8_load8x8(weights + 8), bytes));
}

using Part = int16_t;
inline Ints multiply(Ints sums, int32_t two, const int8_t *weights) {
    return sums + Ints(wasm_i32x4_dot_i16x8(wasm_i32x4_splat(two), wasm_v128_load(weights)));
}

// Browsers have sixteen registers, and keep sums in them while there are few: those of four columns, or of eight of 16 bits. What
// two neighbours give is kept apart until the end. Rows are widened once for all columns.
#define OWN_PRODUCTS
constexpr size_t TOGETHER = 512;

template <int COUNT> inline void add_bytes(Ints (&sums)[COUNT], const int16_t *rows, const int8_t *weights, size_t depth) {
    v128_t left[COUNT], right[COUNT];
    for (int each = 0; each < COUNT; each++) left[each] = right[each] = wasm_i32x4_const_splat(0);
    for (size_t deep = 0; deep < depth; deep += DEPTH, weights += DEPTH * PANEL) {
        const v128_t first = wasm_i16x8_load8x8(weights), second = wasm_i16x8_load8x8(weights + 8);
        for (int each = 0; each < COUNT; each++) {
            const v128_t four = wasm_v128_load64_splat(rows + each * TOGETHER + deep);
            left[each] = wasm_i32x4_add(left[each], wasm_i32x4_dot_i16x8(first, four));
            right[each] = wasm_i32x4_add(right[each], wasm_i32x4_dot_i16x8(second, four));
        }
    }
    for (int each = 0; each < COUNT; each++) sums[each] = in_pairs(left[each], right[each]);
}

template <int COUNT, int WIDE>
inline void add_words(Ints (&sums)[COUNT][WIDE], const uint8_t *rows, size_t stride, const int8_t *weights, size_t depth) {
    for (size_t deep = 0; deep < depth; deep += DEPTH, weights += DEPTH * PANEL)
        for (int each = 0; each < COUNT; each++)
            for (int vector = 0; vector < WIDE; vector++)
                sums[each][vector] = multiply(sums[each][vector], four_of(rows + each * stride + deep), weights + vector * LANES * DEPTH);
}

template <auto MULTIPLY, int COUNT, int WIDE>
inline void add_products(Ints (&sums)[COUNT][WIDE], const uint8_t *rows, size_t stride, const int8_t *columns,
                         size_t column, size_t deepest, size_t depth) {
    if constexpr (MULTIPLY == multiply) {
        constexpr int BESIDE = WIDE < 2 ? WIDE : 2;
        for (int vector = 0; vector < WIDE; vector += BESIDE) {
            Ints few[COUNT][BESIDE] = {};
            add_words(few, rows, stride, columns + columns_at(column + vector * LANES, deepest), depth);
            for (int each = 0; each < COUNT; each++)
                for (int at = 0; at < BESIDE; at++) sums[each][vector + at] += few[each][at];
        }
    } else {
        alignas(16) int16_t wide[COUNT * TOGETHER];
        for (size_t from = 0; from < depth; from += TOGETHER) {
            const size_t count = depth - from < TOGETHER ? depth - from : TOGETHER;
            for (int each = 0; each < COUNT; each++)
                for (size_t deep = 0; deep < count; deep += 8)
                    wasm_v128_store(wide + each * TOGETHER + deep, wasm_u16x8_load8x8(rows + each * stride + from + deep));
            for (int vector = 0; vector < WIDE; vector++) {
                Ints few[COUNT];
                add_bytes(few, wide, columns + columns_at(column + vector * LANES, deepest) + from * PANEL, count);
                for (int each = 0; each < COUNT; each++) sums[each][vector] += few[each];
            }
        }
    }
}

#include "kernels.inc"

}  // namespace

extern const Kernels simd128_kernels;
const Kernels simd128_kernels{"SIMD128", norm, quantize, product, attention, gate, rotate, norm_heads};

}  // namespace embed
#endif
