// What the session asks of an operating system, in a module that imports nothing: its one file is memory that the host has filled.
#pragma once
#include <cstddef>
#include <cstdint>

namespace embed {

struct Lent {
    const uint8_t *data = nullptr;
    size_t size = 0;
};
extern Lent lent;

}  // namespace embed
