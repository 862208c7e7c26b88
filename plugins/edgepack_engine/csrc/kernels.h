// What computes the steps of a plan, once for each level of the processor.
#pragma once
#include <cstddef>
#include <cstdint>

namespace embed {

struct Norm {
    const float *input, *skip;         // [rows, width]; the second may be null
    const float *bias;                 // [width], added first; may be null
    const float *weight, *shift;       // [width]; the second may be null
    const float *smoothing;            // [width], what is quantized is multiplied by; may be null
    float epsilon;
    bool without_mean;                 // RMSNorm
    float *sum, *output;               // [rows, width]; the first, of what was added, may be null
    uint8_t *quantized;                // [rows, width]; may be null
    float *ranges;                     // [rows]
    size_t rows, width, counted;       // numbers of a row beyond those that count are 0
};

struct Quantization {
    const float *input, *smoothing;    // [rows, stride] of which [rows, width] count, and [width] or null
    float raise;                       // added before, where numbers are unsigned
    bool is_unsigned;
    uint8_t *output;                   // [rows, width]
    float *ranges;                     // [rows]
    size_t rows, width, stride;
};

struct Product {
    const uint8_t *input;              // [rows, depth]
    const float *ranges;               // [rows]
    const int8_t *weights;             // [width / 16, depth / 4, 16, 4]
    const int32_t *sums;               // [width]: of each column's weights
    int32_t zero;                      // what byte stands for 0
    const float *scales, *bias;        // [width]
    float *output;                     // [rows, stride] of which [rows, width] are written
    size_t rows, depth, width, stride;
    uint32_t activation;
};

struct Attention {
    const float *query, *key, *value;  // of the text's first token and the first head
    float *output;                     // may be where queries are
    size_t stride, output_stride;      // of query, key and value, and of what is made
    size_t tokens, keys;               // the first `keys` are those that all attend to
    size_t heads, groups, size;        // `groups`: heads of keys and values
    size_t radius;                     // of a window to both sides; 0: none
    bool causal;                       // whether a token attends only to itself and what is before
    bool in_floats;                    // and not in whole numbers
    float scale;
    const float *distances;            // [heads, reach]: added to scores, by key less query; the middle is 0 apart, may be null
    size_t reach;
    // Or, of each query and each key, a number for each kind of distance, added to scores: [tokens, kinds_stride], may be null.
    const float *by_query, *by_key;
    const int32_t *kinds;              // [reach], by key less query, the middle for 0 apart
    size_t kinds_stride, kinds_count;  // `kinds_count`: numbers of a head
    float *room;                       // as attention_room says
};

struct Gating {
    const float *input;                // [rows, 2 width]: what is activated, and what it multiplies
    float *output;                     // [rows, width]
    size_t rows, width;
    uint32_t activation;
};

// Heads of each row, in place.
struct Heads {
    float *first;                      // of the first row
    size_t rows, stride, count, size;
    size_t counted;                    // of each head; the others are 0
    const float *weight;               // [size], of a norm without mean
    float epsilon;
    const uint32_t *positions;         // [rows]
    const float *turns;                // [positions, size]: cosines, then sines, of half as many angles
};

struct Kernels {
    const char *name;
    void (*norm)(const Norm &);
    void (*quantize)(const Quantization &);
    void (*product)(const Product &);
    void (*attention)(const Attention &);
    void (*gate)(const Gating &);
    void (*rotate)(const Heads &);
    void (*norm_heads)(const Heads &);
};

constexpr size_t MOST_SIZE = 512;  // of a head
constexpr size_t KEYS = 128, QUERIES = 120;  // that attention has together; the second is a multiple of any level's ROWS
// Keys of a text are padded to whole vectors of any level, or to whole tiles.
constexpr size_t padded_keys(size_t tokens) {
    const size_t to = tokens <= KEYS ? 16 : KEYS;
    return (tokens + to - 1) / to * to;
}
// Numbers of 32 bits that `Attention::room` has for texts of so many tokens.
constexpr size_t attention_room(size_t tokens, size_t size) {
    const size_t padded = padded_keys(tokens), tiles = (padded + KEYS - 1) / KEYS;
    const size_t numbers = padded * (size + 3) + tiles * size + QUERIES * (size + size / 2 + 3);
    return (numbers + 15) / 16 * 16;
}
// For the processor that the program runs on.
const Kernels &kernels_here();

}  // namespace embed
