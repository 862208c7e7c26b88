// Reading from and writing to what may be a pipe, also one that does not wait: node, asyncio or ssh make the open file that they share with the
// program such a one. A signal ends neither.
#pragma once
#include <cstddef>
#include <string_view>
#include <sys/types.h>

namespace embed {

// Up to so many bytes; 0 at the end, -1 with errno.
ssize_t read_some(int descriptor, void *to, size_t size);
// All of them; 0, or errno.
int write_all(int descriptor, std::string_view bytes);

}  // namespace embed
