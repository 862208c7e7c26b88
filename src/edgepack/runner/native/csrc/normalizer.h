// Normalizers that treat each code point by itself, and may bring marks into canonical order.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "table.h"

namespace embed {

class Normalizer {
public:
    void open(const Table &table);
    // Whether there is anything to do at all.
    explicit operator bool() const { return bool(forms_); }
    void normalize(std::string_view text, std::string &normal) const;

private:
    struct Mark {
        uint32_t point, order;
    };
    struct Run;
    void emit(uint32_t point, Run &run) const;
    uint32_t order_of(uint32_t point) const;

    CodePointTable<uint16_t> forms_;
    const uint32_t *offsets_ = nullptr, *points_ = nullptr, *marks_ = nullptr;
    size_t mark_count_ = 0;
    // What becomes of ASCII: a character, or `other` for more or less than that.
    static constexpr uint8_t other = 0xFF;
    uint8_t ascii_[128] = {};
};

}  // namespace embed
