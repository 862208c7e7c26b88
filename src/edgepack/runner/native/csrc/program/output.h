// Standard output, or a file that appears under its name when all has been written.
#pragma once
#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/error.h"

namespace embed {

class Output {
public:
    ~Output();
    // `path` null: standard output. A code of 7.
    Error open(const std::string *path, unsigned mode = 0666);
    // Kept in memory until there is enough of it; what goes wrong is said by flush() and finish().
    void write(std::string_view bytes) {
        pending_ += bytes;
        if (pending_.size() > 1 << 16) drain();
    }
    Error flush();
    // Put the file in its place.
    Error finish();
    int descriptor() const { return descriptor_; }
    // Whether what was written can be written over: not on a pipe, and not when every write goes to the end.
    bool can_patch() const;
    // Bytes written so far, and writing over some of them.
    off_t position();
    Error patch(off_t place, std::string_view bytes);

private:
    void drain();

    std::string pending_, final_, temporary_;
    int descriptor_ = -1, failure_ = 0;
};

// All of an output at once.
Error print(const std::string &text, const std::string *path = nullptr);

// Ends the program by a signal's own doing when it comes, and removes what is left of a file that was being
// written.
void listen_to_signals();

}  // namespace embed
