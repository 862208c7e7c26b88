// WebAssembly with SIMD128, which every browser has that a bundle for browsers is made for; compiled a second time for those with relaxed
// SIMD, which multiplies bytes.
#include "level.h"

#include <vector>

#if defined(__wasm_simd128__)
#include <wasm_simd128.h>

namespace embed {

#if defined(__wasm_relaxed_simd__)
// Not a constant for the compiler: browsers make one anew wherever it is used.
extern int16_t ONES[8];
int16_t ONES[8] = {1, 1, 1, 1, 1, 1, 1, 1};
#endif

namespace {

#if defined(__wasm_relaxed_simd__)
constexpr int MIDDLE = 128;
#else
constexpr int MIDDLE = 0;
#endif
constexpr int LANES = 4, ROWS = 4, VECTORS = 16;
using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));

inline Ints in_pairs(v128_t one, v128_t other) {
    return Ints(wasm_i32x4_shuffle(one, other, 0, 2, 4, 6)) + Ints(wasm_i32x4_shuffle(one, other, 1, 3, 5, 7));
}

// Eight bytes less MIDDLE.
inline v128_t widened(v128_t bytes) {
    if constexpr (MIDDLE == 0) return wasm_u16x8_extend_low_u8x16(bytes);
    return wasm_i16x8_extend_low_i8x16(wasm_v128_xor(bytes, wasm_i8x16_const_splat(-128)));
}

inline Ints dot(Ints sums, int32_t four, const int8_t *weights) {
    const v128_t bytes = widened(wasm_i32x4_splat(four));
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

#if defined(__wasm_relaxed_simd__)
// An instruction multiplies signed bytes by numbers of 7 bits, and adds two neighbours in 16: exact, whatever the processor makes of it.
// Nearly all weights of recipes for small downloads are from -64 to 63. Of such a matrix they have 64 added, where they lie: the
// plan is the module's own copy. What is left of the few others is kept apart.
struct Rest {
    uint32_t row, column;
    int32_t weight;
};
struct Matrix {
    const int8_t *weights = nullptr;
    bool narrow = false;
    std::vector<Rest> rests;
    std::vector<uint32_t> begins;  // of each panel's, and the end
};
constexpr int LOWEST_WEIGHT = -64, LARGEST_WEIGHT = 63;
constexpr size_t RARE = 512;  // of so many weights one may be another

inline std::vector<Matrix> &matrices() {
    static auto *all = new std::vector<Matrix>;
    return *all;
}

// Of one that was met; it is that of the call before, mostly.
inline const Matrix *matrix_of(const int8_t *weights) {
    static size_t last = 0;
    const std::vector<Matrix> &all = matrices();
    if (last < all.size() && all[last].weights == weights) return &all[last];
    for (last = 0; last < all.size(); last++)
        if (all[last].weights == weights) return &all[last];
    return nullptr;
}

inline v128_t clamped(v128_t weights) {
    return wasm_i8x16_max(wasm_i8x16_min(weights, wasm_i8x16_const_splat(LARGEST_WEIGHT)), wasm_i8x16_const_splat(LOWEST_WEIGHT));
}

void set_apart(const Product &task) {
    if (matrix_of(task.weights)) return;
    Matrix made;
    made.weights = task.weights;
    auto *weights = const_cast<int8_t *>(task.weights);
    const size_t size = task.depth * task.width, panel = PANEL * task.depth;
    for (size_t at = 0; at < size; at += 16) {
        if (at % panel == 0) made.begins.push_back(uint32_t(made.rests.size()));
        const v128_t whole = wasm_v128_load(weights + at);
        if (!wasm_v128_any_true(wasm_v128_xor(whole, clamped(whole)))) continue;
        for (size_t one = at; one < at + 16; one++) {
            const int weight = weights[one], near = weight < LOWEST_WEIGHT ? LOWEST_WEIGHT : weight > LARGEST_WEIGHT ? LARGEST_WEIGHT : weight;
            const size_t place = one % panel;
            const size_t row = place / (PANEL * DEPTH) * DEPTH + place % DEPTH, column = one / panel * PANEL + place / DEPTH % PANEL;
            if (weight != near) made.rests.push_back({uint32_t(row), uint32_t(column), weight - near});
        }
    }
    made.begins.push_back(uint32_t(made.rests.size()));
    made.narrow = made.rests.size() * RARE <= size;
    for (size_t at = 0; made.narrow && at < size; at += 16)
        wasm_v128_store(weights + at, wasm_i8x16_sub(clamped(wasm_v128_load(weights + at)), wasm_i8x16_const_splat(LOWEST_WEIGHT)));
    matrices().push_back(made);
}

inline int32_t sum_of_bytes(v128_t *moved, const uint8_t *row, size_t count) {
    v128_t total = wasm_i32x4_const_splat(0);
    for (size_t deep = 0; deep < count; deep += 16) {
        const v128_t bytes = wasm_v128_xor(wasm_v128_load(row + deep), wasm_i8x16_const_splat(-128));
        moved[deep / 16] = bytes;
        total = wasm_i32x4_add(total, wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_extadd_pairwise_i8x16(bytes)));
    }
    const Ints four = Ints(total);
    return four[0] + four[1] + four[2] + four[3];
}

template <int COUNT> inline void add_narrow(Ints (&sums)[COUNT][2], const v128_t *rows, const int8_t *weights, size_t depth) {
    const v128_t ones = wasm_v128_load(ONES);
    for (size_t deep = 0; deep < depth; deep += DEPTH, weights += DEPTH * PANEL)
        for (int each = 0; each < COUNT; each++) {
            const v128_t four = wasm_v128_load32_splat(reinterpret_cast<const uint8_t *>(rows + each * TOGETHER / 16) + deep);
            for (int vector = 0; vector < 2; vector++) {
                const v128_t pairs = wasm_i16x8_relaxed_dot_i8x16_i7x16(four, wasm_v128_load(weights + vector * 16));
                sums[each][vector] += Ints(wasm_i32x4_dot_i16x8(pairs, ones));
            }
        }
}

template <int COUNT, int WIDE>
inline void add_products_of(const Matrix &matrix, Ints (&sums)[COUNT][WIDE], const uint8_t *rows, size_t stride, size_t column,
                            size_t depth) {
    v128_t moved[COUNT * TOGETHER / 16];
    for (size_t from = 0; from < depth; from += TOGETHER) {
        const size_t count = depth - from < TOGETHER ? depth - from : TOGETHER;
        int32_t totals[COUNT];
        for (int each = 0; each < COUNT; each++)
            totals[each] = LOWEST_WEIGHT * sum_of_bytes(moved + each * TOGETHER / 16, rows + each * stride + from, count);
        for (int vector = 0; vector < WIDE; vector += 2) {
            Ints two[COUNT][2] = {};
            add_narrow(two, moved, matrix.weights + columns_at(column + vector * LANES, depth) + from * PANEL, count);
            for (int each = 0; each < COUNT; each++)
                for (int at = 0; at < 2; at++) sums[each][vector + at] += two[each][at] + totals[each];
        }
    }
    const Rest *end = matrix.rests.data() + matrix.begins[(column + WIDE * LANES) / PANEL];
    for (const Rest *rest = matrix.rests.data() + matrix.begins[column / PANEL]; rest < end; rest++)
        for (int each = 0; each < COUNT; each++)
            sums[each][(rest->column - column) / LANES][(rest->column - column) % LANES] +=
                (rows[each * stride + rest->row] - MIDDLE) * rest->weight;
}
#endif

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
#if defined(__wasm_relaxed_simd__)
        const Matrix *matrix = matrix_of(columns);
        if (matrix && matrix->narrow) return add_products_of(*matrix, sums, rows, stride, column, depth);
#endif
        alignas(16) int16_t wide[COUNT * TOGETHER];
        for (size_t from = 0; from < depth; from += TOGETHER) {
            const size_t count = depth - from < TOGETHER ? depth - from : TOGETHER;
            for (int each = 0; each < COUNT; each++)
                for (size_t deep = 0; deep < count; deep += 8)
                    wasm_v128_store(wide + each * TOGETHER + deep, widened(wasm_v128_load64_zero(rows + each * stride + from + deep)));
            for (int vector = 0; vector < WIDE; vector++) {
                Ints few[COUNT];
                add_bytes(few, wide, columns + columns_at(column + vector * LANES, deepest) + from * PANEL, count);
                for (int each = 0; each < COUNT; each++) sums[each][vector] += few[each];
            }
        }
    }
}

#include "kernels.inc"

#if defined(__wasm_relaxed_simd__)
void product_apart(const Product &task) {
    set_apart(task);
    product(task);
}
constexpr auto OWN_PRODUCT = product_apart;
#else
constexpr auto OWN_PRODUCT = product;
#endif

}  // namespace

extern const Kernels simd128_kernels;
const Kernels simd128_kernels{"SIMD128", norm, quantize, OWN_PRODUCT, attention, gate, rotate, norm_heads};

}  // namespace embed
#endif
