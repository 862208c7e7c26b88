// What the kernels of every level share. Included before a level's target is set, so that nothing of the system is compiled
// for it.
#pragma once
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels.h"
#include "plan.h"
#include "unfused.h"

namespace embed {

constexpr float LOWEST = -1e30f, SMALLEST_RANGE = 1e-12f;
constexpr float GELU_TERMS[8] = {0.398493975f,    -0.0655747056f,   0.00932377949f,   -0.000957215903f,
                                 6.77805510e-5f, -3.10365294e-6f, 8.19090644e-8f, -9.39880507e-10f};

inline int32_t four_of(const uint8_t *bytes) {
    int32_t four;
    __builtin_memcpy(&four, bytes, sizeof four);
    return four;
}

// Where the weights of a vector of columns begin, in bytes behind those of the first.
inline size_t columns_at(size_t column, size_t depth) {
    return column / PANEL * PANEL * depth + column % PANEL * DEPTH;
}

}  // namespace embed
