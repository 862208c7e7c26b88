// The forms that a vector's numbers can have.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace embed {

// Numbers that a row of this type has: bytes, where they are bits.
size_t row_width(const std::string &type, size_t dimension);
// NumPy's name of a type.
const char *numpy_name(const std::string &type);
// Appends a vector as the bytes of its type. A code of 2 for a number that is too large for it.
Error append_packed(const float *vector, size_t dimension, const std::string &type, std::string &out);
// Appends `[…]`: nine digits bring every float32 back exactly.
void append_floats(const float *numbers, size_t count, std::string &out);
// Appends `"embedding":[…]`, and the scale where there is one.
Error append_fields(const float *vector, size_t dimension, const std::string &type, std::string &out);

}  // namespace embed
