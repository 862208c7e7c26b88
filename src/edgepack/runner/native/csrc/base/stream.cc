#include "base/stream.h"

#include <cerrno>
#include <poll.h>
#include <unistd.h>

namespace embed {

namespace {

// Whether what failed is done again.
bool goes_on(int descriptor, short ready) {
    if (errno != EAGAIN) return errno == EINTR;
    pollfd waited{descriptor, ready, 0};
    poll(&waited, 1, -1);
    return true;
}

}  // namespace

ssize_t read_some(int descriptor, void *to, size_t size) {
    ssize_t got;
    do got = read(descriptor, to, size);
    while (got < 0 && goes_on(descriptor, POLLIN));
    return got;
}

int write_all(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t done = write(descriptor, bytes.data(), bytes.size());
        if (done >= 0) bytes.remove_prefix(size_t(done));
        else if (!goes_on(descriptor, POLLOUT)) return errno;
    }
    return 0;
}

}  // namespace embed
