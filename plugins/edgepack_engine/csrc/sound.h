// Whether a file is a plan that can be computed: nothing in it leads beyond its end, and all that is read was written before.
#pragma once
#include <cstddef>
#include <cstdint>

#include "plan.h"

namespace embed {

constexpr size_t ALIGNMENT = 64;  // of what lies in the file, and of buffers

// A file in memory, and where in it buffers and steps are.
struct PlanView {
    const uint8_t *file;
    uint64_t size;
    Header header;
    const Buffer *buffers;
    const Step *steps;
};

// Fills in what is beside the file. The name of the first rule that it breaks; null: it is sound.
const char *broken_rule(PlanView &plan);

}  // namespace embed
