// The compiled tokenizer: a file of sections, mapped and used in place. runner/tokenizer/compile.py writes
// it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"

namespace embed {

// A file in memory, read-only.
class Mapping {
public:
    Mapping() = default;
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;
    ~Mapping();
    // 0, or errno.
    int open(const char *path);
    const uint8_t *data() const { return data_; }
    size_t size() const { return size_; }
    // Let the system take the pages back; they are read again where they are needed.
    void release_pages() const;

private:
    const uint8_t *data_ = nullptr;
    size_t size_ = 0, before_ = 0;  // of what is mapped
};

struct Bytes {
    const uint8_t *data = nullptr;
    size_t size = 0;
    explicit operator bool() const { return data != nullptr; }
    template <class T> const T *as(size_t offset = 0) const {
        return reinterpret_cast<const T *>(data + offset);
    }
    std::string_view text() const { return {reinterpret_cast<const char *>(data), size}; }
};

// A table by code point, in two stages.
template <class T> class CodePointTable {
public:
    // False where the section is none: nothing of it leads beyond its end.
    bool open(Bytes bytes) {
        constexpr size_t stages = 0x110000 >> 7, head = 8 + 2 * stages;
        if (bytes.size < head) return false;
        stage_ = bytes.as<uint16_t>(8);
        blocks_ = bytes.as<T>(head);
        size_ = (bytes.size - head) / sizeof(T);
        return std::all_of(stage_, stage_ + stages,
                           [&](uint16_t block) { return (size_t(block) + 1) << 7 <= size_; });
    }
    // Whether no code point has more.
    bool below(uint32_t limit) const {
        return std::all_of(blocks_, blocks_ + size_, [&](T value) { return value < limit; });
    }
    T operator[](uint32_t point) const {
        return point < 0x110000 ? blocks_[size_t(stage_[point >> 7]) << 7 | (point & 127)] : T(0);
    }

private:
    const uint16_t *stage_ = nullptr;
    const T *blocks_ = nullptr;
    size_t size_ = 0;
};

// Byte strings with numbers; walked a byte at a time.
class Trie {
public:
    static constexpr uint32_t none = ~0u;
    static constexpr uint32_t root = 0;

    // False where the section is none: nothing of it leads beyond its end, and no key's number is `limit` or
    // more.
    bool open(Bytes bytes, uint64_t limit);
    bool empty() const { return nodes_ <= 1; }
    // The child of a node, or `none`.
    uint32_t step(uint32_t node, uint8_t label) const {
        uint32_t begin = first(node), end = first(node + 1);
        if (end - begin <= 4) {
            for (uint32_t child = begin; child < end; child++)
                if (labels_[child] == label) return child;
            return none;
        }
        auto found = static_cast<const uint8_t *>(memchr(labels_ + begin, label, end - begin));
        return found ? uint32_t(found - labels_) : none;
    }
    // The number of the key that ends at a node, or `none`.
    uint32_t value(uint32_t node) const {
        uint64_t bit = uint64_t(1) << (node & 63), word = bits_[node >> 6];
        if (!(word & bit)) return none;
        return numbers_[ranks_[node >> 6] + uint32_t(__builtin_popcountll(word & (bit - 1)))];
    }
    // Of all keys that the text begins with the longest: its number and length; `none` when there is none.
    uint32_t longest(std::string_view text, size_t &length) const;
    // The number of a whole key.
    uint32_t find(std::string_view key) const;

private:
    uint32_t first(uint32_t node) const { return base_[node >> 6] + offsets_[node]; }
    bool is_sound(size_t numbers, uint64_t limit) const;

    uint32_t nodes_ = 0;
    const uint64_t *bits_ = nullptr;
    const uint32_t *base_ = nullptr, *ranks_ = nullptr, *numbers_ = nullptr;
    const uint16_t *offsets_ = nullptr;
    const uint8_t *labels_ = nullptr;
};

Error damaged_table(const std::string &path);

class Table {
public:
    // Maps and checks the file; a code of 4 for one that is damaged.
    Error open(const std::string &path);
    // A section, which lies in the file; empty when the file does not have it.
    Bytes section(const char *name) const;
    void release_pages() const { file_.release_pages(); }

private:
    Mapping file_;
};

}  // namespace embed
