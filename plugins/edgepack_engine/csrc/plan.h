// The file that plan.py writes: what a model computes, step by step, with its weights as the kernels read them.
#pragma once
#include <cstdint>

namespace embed {

constexpr uint32_t NOTHING = 0xFFFFFFFF;  // in the place of a buffer
constexpr uint32_t PANEL = 16, DEPTH = 4;  // columns and rows of weights that lie together: PANEL x DEPTH bytes
constexpr uint32_t COLUMNS = 64;           // those of a product are a multiple of it

enum Operation : uint32_t { LOOKUP = 1, NORM, QUANTIZE, PRODUCT, ATTENTION, GATE, ROTATE, NORM_HEADS, POOL, UNIT, GIVE, ALTER, COMBINE, SHARES };
enum Activation : uint32_t { LINEAR = 0, GELU = 1, GELU_TANH = 2, SILU = 3 };
enum Pooling : uint32_t { MEAN = 0, FIRST, LAST, LARGEST, ROOT, RISING, SUM };
// Of each number by itself, and of two of them.
enum Function : uint32_t { SCALED = 0, RAISED, CLIPPED, LEAKY, SHRUNK, HARD_SIGMOID, TANH, SIGMOID, EXACT_GELU, ELU, SOFTPLUS, SOFTSIGN, LOG };
enum Combination : uint32_t { ADDED = 0, SUBTRACTED, TIMES };
enum Rows : uint32_t { OF_TOKENS = 0, OF_TYPES = 1, OF_POSITIONS = 2, OF_COUNTED = 3 };
enum Flag : uint32_t { ACCUMULATED = 1, UNSIGNED = 2, WITHOUT_MEAN = 4, CAUSAL = 8, IN_FLOATS = 16 };

// Steps from `pooled` on are computed text by text: those up to the last POOL for its tokens, a few at a time, and those behind it for
// the text alone, whose vector is the first numbers of the buffer `vector`. For each token GIVE gives `given` numbers.
struct Header {
    char magic[8];
    uint64_t size;  // of the file
    uint32_t steps, buffers, vector, pooled;
    uint32_t given, dimension, longest, reserved;
    uint64_t buffers_at, steps_at;
};
static_assert(sizeof(Header) == 64);

// Numbers of each token, float32, or uint8 with a range a token. One that is `kept` holds those of all tokens of a batch; the
// others only of the few that are computed together.
struct Buffer {
    uint32_t width, bytes, kept, reserved;
};

// Buffers are indices; tensors are places in the file, 0 for none.
struct Step {
    uint32_t operation, flags;
    uint32_t from[3], to[3];
    uint32_t sizes[8];
    float numbers[2];
    uint64_t tensors[4];
};
static_assert(sizeof(Step) == 104);

}  // namespace embed
