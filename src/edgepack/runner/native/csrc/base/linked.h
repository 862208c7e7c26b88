// A bundle that is linked into a program, beside its libembed: the same zip as behind a program (base/file.h).
#pragma once
#include <cstdint>

// Defined by the archive's other object.
extern "C" {
extern const uint8_t edgepack_bundle[];
extern const uint64_t edgepack_bundle_size;
}

namespace embed {

// Whether there is one.
constexpr bool LINKED = false;
// What its paths begin with.
constexpr char INSIDE[] = "(inside the program)";

inline bool is_linked(const uint8_t *bytes) {
    if constexpr (LINKED) return bytes >= edgepack_bundle && bytes < edgepack_bundle + edgepack_bundle_size;
    return false;
}

}  // namespace embed
