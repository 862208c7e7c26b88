// Files of a bundle: in its folder, or as members of a zip, stored and not compressed, behind the program or linked into one. A member is opened
// as a path below what holds it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/linked.h"

namespace embed {

// A file, or a member, that is open to be read.
class File {
public:
    File() = default;
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    ~File();
    // 0, or errno; of what is no file but a pipe or a device, EINVAL.
    int open(const std::string &path);
    // False where there are not so many bytes from a place on.
    bool read(uint64_t place, void *to, size_t size) const;
    // What has it, and where in that it begins.
    int descriptor() const { return descriptor_; }
    uint64_t start() const { return start_; }
    uint64_t size() const { return size_; }
    // What is linked in: its bytes, in memory; NULL for a file.
    const uint8_t *linked() const {
        return LINKED && descriptor_ == IN_MEMORY ? reinterpret_cast<const uint8_t *>(start_) : nullptr;
    }

private:
    static constexpr int IN_MEMORY = -2;
    int open_member(const std::string &holder, const std::string &name);

    int descriptor_ = -1;
    uint64_t size_ = 0, start_ = 0;
};

// Its size; 0, or errno.
int size_of(const std::string &path, uint64_t &size);
// The names of all members, without that of the program before them; empty where a file has none.
std::vector<std::string> members_of(const std::string &holder);

}  // namespace embed
