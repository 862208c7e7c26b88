// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, without what is for archives of 4 GB and more.
#include "base/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace embed {

namespace {

constexpr size_t END = 22, ENTRY = 46, LOCAL = 30;
// As what is mapped has to lie.
constexpr uint64_t ALIGNMENT = 64;
constexpr uint64_t MOST_OF_LIST = 16 << 20;
// The program before the zip: its bytes are no member.
constexpr std::string_view PROGRAMS[] = {"embed", "embed.exe"};

uint64_t number(const char *bytes, size_t count) {
    uint64_t made = 0;
    while (count--) made = made << 8 | uint8_t(bytes[count]);
    return made;
}

struct Member {
    std::string_view name;
    uint64_t local = 0, size = 0;
    bool stored = false;
};

// The list of a zip's members, which ends where the file does.
class List {
public:
    bool read(const File &file) {
        char end[END];
        if (file.size() < END || !file.read(file.size() - END, end, END) || memcmp(end, "PK\5\6", 4))
            return false;
        const uint64_t size = number(end + 12, 4);
        start_ = number(end + 16, 4);
        if (size > MOST_OF_LIST || start_ + size + END != file.size()) return false;
        bytes_.resize(size_t(size));
        return file.read(start_, &bytes_[0], bytes_.size());
    }
    // Where it begins: members end before.
    uint64_t start() const { return start_; }
    // The next one; false at the end, and at what is none.
    bool next(Member &member) {
        const char *at = bytes_.data() + place_;
        if (bytes_.size() - place_ < ENTRY || memcmp(at, "PK\1\2", 4)) return false;
        const size_t name = size_t(number(at + 28, 2)), rest = size_t(number(at + 30, 2) + number(at + 32, 2));
        if (bytes_.size() - place_ - ENTRY < name + rest) return false;
        member.name = {at + ENTRY, name};
        member.size = number(at + 24, 4);
        member.stored = !number(at + 10, 2) && number(at + 20, 4) == member.size;
        member.local = number(at + 42, 4);
        place_ += ENTRY + name + rest;
        return true;
    }

private:
    std::string bytes_;
    uint64_t start_ = 0;
    size_t place_ = 0;
};

// The file that a path leads below, if there is one, and what the path says of it.
bool split(const std::string &path, std::string &holder, std::string &name) {
    struct stat status;
    for (size_t slash = path.rfind('/'); slash != path.npos && slash; slash = path.rfind('/', slash - 1)) {
        holder = path.substr(0, slash);
        if (stat(holder.c_str(), &status)) continue;
        name = path.substr(slash + 1);
        return S_ISREG(status.st_mode);
    }
    return false;
}

}  // namespace

File::~File() {
    if (descriptor_ >= 0) close(descriptor_);
}

int File::open(const std::string &path) {
    if constexpr (LINKED) {
        if (path == INSIDE) {
            descriptor_ = IN_MEMORY;
            start_ = reinterpret_cast<uintptr_t>(edgepack_bundle);
            size_ = edgepack_bundle_size;
            return 0;
        }
        if (path.find(INSIDE) == 0) return open_member(INSIDE, path.substr(sizeof INSIDE));
    }
    struct stat status;
    if (stat(path.c_str(), &status)) {
        const int failure = errno;
        std::string holder, name;
        return split(path, holder, name) ? open_member(holder, name) : failure;
    }
    // Before it is opened: that would wait for a pipe, and starts some devices.
    if (!S_ISREG(status.st_mode)) return EINVAL;
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) return errno;
    size_ = uint64_t(status.st_size);
    return 0;
}

int File::open_member(const std::string &holder, const std::string &name) {
    if (int failure = open(holder)) return failure;
    List list;
    if (!list.read(*this)) return ENOENT;
    Member each, found;
    uint64_t first = list.start();
    for (bool named = false; list.next(each);) {
        first = std::min(first, each.local);
        if (!named && each.name == name) found = each, named = true;
    }
    if (name == PROGRAMS[0] || name == PROGRAMS[1]) {
        size_ = first;
        return 0;
    }
    if (found.name.empty()) return ENOENT;
    char local[LOCAL];
    if (!found.stored || !read(found.local, local, LOCAL) || memcmp(local, "PK\3\4", 4)) return EINVAL;
    const uint64_t at = found.local + LOCAL + number(local + 26, 2) + number(local + 28, 2);
    start_ += at;
    size_ = found.size;
    return at % ALIGNMENT || at + size_ > list.start() ? EINVAL : 0;
}

bool File::read(uint64_t place, void *to, size_t size) const {
    if (const uint8_t *bytes = linked()) {
        if (place > size_ || size > size_ - place) return false;
        memcpy(to, bytes + place, size);
        return true;
    }
    auto bytes = static_cast<uint8_t *>(to);
    for (ssize_t got; size; bytes += got, place += uint64_t(got), size -= size_t(got)) {
        got = pread(descriptor_, bytes, size, off_t(start_ + place));
        if (got < 0 && errno == EINTR) got = 0;
        else if (got <= 0) return false;
    }
    return true;
}

int size_of(const std::string &path, uint64_t &size) {
    File file;
    const int failure = file.open(path);
    size = file.size();
    return failure;
}

std::vector<std::string> members_of(const std::string &holder) {
    std::vector<std::string> names;
    File file;
    List list;
    Member each;
    if (!file.open(holder) && list.read(file))
        while (list.next(each)) names.emplace_back(each.name);
    return names;
}

}  // namespace embed
