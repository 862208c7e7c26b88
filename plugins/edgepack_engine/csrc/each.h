// Steps that few models have: functions of single numbers, of two, and shares of a row. Programs for other plans are without.
#pragma once
#include <cstddef>
#include <cstdint>

#include "plan.h"

namespace embed {

struct Each {
    const Step &step;
    const float *from, *other;
    float *to;
    size_t rows, stride;  // of all buffers
};

// The operations that this program has.
extern const uint32_t LAST_OPERATION;
void compute_each(const Each &task);

}  // namespace embed
