#include "tokenizer/table.h"

#include <cerrno>
#include <sys/mman.h>

#include "base/file.h"

namespace embed {

// Mappings may begin at multiples of it, however large pages are, and on Windows.
static constexpr uint64_t STEP = 1 << 16;

Mapping::~Mapping() {
    if (data_ && !is_linked(data_)) munmap(const_cast<uint8_t *>(data_) - before_, size_ + before_);
}

int Mapping::open(const char *path) {
    File file;
    if (int failure = file.open(path)) return failure;
    if (!file.size()) return EINVAL;
    if (file.linked()) {
        data_ = file.linked();
        size_ = size_t(file.size());
        return 0;
    }
    const uint64_t before = file.start() % STEP;
    // More than 32 bits of addresses hold.
    if (file.size() > SIZE_MAX - before) return EFBIG;
    void *place = mmap(nullptr, size_t(file.size() + before), PROT_READ, MAP_PRIVATE, file.descriptor(),
                       off_t(file.start() - before));
    if (place == MAP_FAILED) return errno;
    before_ = size_t(before);
    data_ = static_cast<const uint8_t *>(place) + before_;
    size_ = size_t(file.size());
    return 0;
}

void Mapping::release_pages() const {
    if (data_ && !is_linked(data_)) madvise(const_cast<uint8_t *>(data_) - before_, size_ + before_, MADV_DONTNEED);
}

bool Trie::open(Bytes bytes, uint64_t limit) {
    if (bytes.size < 8) return false;
    auto aligned = [](uint64_t size) { return (size + 7) & ~uint64_t(7); };
    nodes_ = bytes.as<uint32_t>()[0];
    uint64_t numbers = bytes.as<uint32_t>()[1], words = nodes_ / 64 + 1,
             bases = (uint64_t(nodes_) + 1 + 63) / 64, at = 8;
    uint64_t needed = 8 + 8 * words + aligned(4 * bases) + aligned(4 * words) + aligned(4 * numbers) +
                      aligned(2 * (uint64_t(nodes_) + 1)) + nodes_;
    if (nodes_ == 0 || needed > bytes.size) return false;
    bits_ = bytes.as<uint64_t>(at);
    base_ = bytes.as<uint32_t>(at += 8 * words);
    ranks_ = bytes.as<uint32_t>(at += aligned(4 * bases));
    numbers_ = bytes.as<uint32_t>(at += aligned(4 * words));
    offsets_ = bytes.as<uint16_t>(at += aligned(4 * numbers));
    labels_ = bytes.as<uint8_t>(at += aligned(2 * (uint64_t(nodes_) + 1)));
    return is_sound(numbers, limit);
}

// A node's children are nodes, and a node that ends a key has a number.
bool Trie::is_sound(size_t numbers, uint64_t limit) const {
    for (uint32_t node = 0; node < nodes_; node++)
        if (first(node) > first(node + 1)) return false;
    if (first(nodes_) > nodes_) return false;
    for (size_t word = 0; word <= nodes_ / 64; word++)
        if (uint64_t(ranks_[word]) + uint64_t(__builtin_popcountll(bits_[word])) > numbers) return false;
    return std::all_of(numbers_, numbers_ + numbers, [&](uint32_t number) { return number < limit; });
}

uint32_t Trie::longest(std::string_view text, size_t &length) const {
    uint32_t node = root, found = none;
    for (size_t at = 0; at < text.size();) {
        node = step(node, uint8_t(text[at++]));
        if (node == none) break;
        if (uint32_t number = value(node); number != none) {
            found = number;
            length = at;
        }
    }
    return found;
}

uint32_t Trie::find(std::string_view key) const {
    uint32_t node = root;
    for (char letter : key)
        if ((node = step(node, uint8_t(letter))) == none) return none;
    return key.empty() ? none : value(node);
}

Error damaged_table(const std::string &path) {
    return fail(BUNDLE, path + " is damaged: it is not the tokenizer that was made", COPY_AGAIN);
}

namespace {

struct Header {
    char magic[8];
    uint64_t size, sum, sections;
};
struct Entry {
    char name[8];
    uint64_t offset, size;
};

uint64_t weighted_sum(const uint8_t *data, size_t size) {
    uint64_t sum = 0;
    auto words = reinterpret_cast<const uint64_t *>(data);
    for (size_t index = 0; index < size / 8; index++) sum += words[index] * (2 * index + 1);
    return sum;
}

}  // namespace

Error Table::open(const std::string &path) {
    if (int failure = file_.open(path.c_str()))
        return fail(BUNDLE, "cannot read " + path + ": " + strerror(failure), COPY_AGAIN);
    auto header = reinterpret_cast<const Header *>(file_.data());
    bool sound = file_.size() >= sizeof(Header) && memcmp(header->magic, "EDGETOK1", 8) == 0 &&
                 header->size == file_.size() && file_.size() % 8 == 0 &&
                 header->sections <= (file_.size() - sizeof(Header)) / sizeof(Entry) &&
                 header->sum == weighted_sum(file_.data() + sizeof(Header), file_.size() - sizeof(Header));
    auto entries = reinterpret_cast<const Entry *>(file_.data() + sizeof(Header));
    for (uint64_t index = 0; sound && index < header->sections; index++) {
        const Entry &entry = entries[index];
        sound = entry.offset % 8 == 0 && entry.offset <= file_.size() &&
                entry.size <= file_.size() - entry.offset;
    }
    return sound ? Error{} : damaged_table(path);
}

Bytes Table::section(const char *name) const {
    auto header = reinterpret_cast<const Header *>(file_.data());
    auto entries = reinterpret_cast<const Entry *>(file_.data() + sizeof(Header));
    for (uint64_t index = 0; index < header->sections; index++)
        if (strncmp(entries[index].name, name, 8) == 0)
            return {file_.data() + entries[index].offset, size_t(entries[index].size)};
    return {};
}

}  // namespace embed
