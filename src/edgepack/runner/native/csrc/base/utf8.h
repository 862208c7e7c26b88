// UTF-8 in and out. Texts that reach the tokenizer are valid UTF-8; the reader sees to that.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace embed {

// The code point at `at`, which is moved behind it.
inline uint32_t next_code_point(std::string_view text, size_t &at) {
    auto byte = [&](size_t index) { return index < text.size() ? uint32_t(uint8_t(text[index])) : 0u; };
    uint32_t head = byte(at);
    if (head < 0x80) {
        at += 1;
        return head;
    }
    if (head < 0xE0) {
        uint32_t point = (head & 0x1F) << 6 | (byte(at + 1) & 0x3F);
        at += 2;
        return point;
    }
    if (head < 0xF0) {
        uint32_t point = (head & 0x0F) << 12 | (byte(at + 1) & 0x3F) << 6 | (byte(at + 2) & 0x3F);
        at += 3;
        return point;
    }
    uint32_t point = (head & 0x07) << 18 | (byte(at + 1) & 0x3F) << 12 | (byte(at + 2) & 0x3F) << 6 |
                     (byte(at + 3) & 0x3F);
    at += 4;
    return point;
}

inline void append_code_point(std::string &text, uint32_t point) {
    if (point < 0x80) {
        text += char(point);
    } else if (point < 0x800) {
        text += char(0xC0 | point >> 6);
        text += char(0x80 | (point & 0x3F));
    } else if (point < 0x10000) {
        text += char(0xE0 | point >> 12);
        text += char(0x80 | (point >> 6 & 0x3F));
        text += char(0x80 | (point & 0x3F));
    } else {
        text += char(0xF0 | point >> 18);
        text += char(0x80 | (point >> 12 & 0x3F));
        text += char(0x80 | (point >> 6 & 0x3F));
        text += char(0x80 | (point & 0x3F));
    }
}

inline size_t utf8_length(uint8_t head) { return head < 0x80 ? 1 : head < 0xE0 ? 2 : head < 0xF0 ? 3 : 4; }

// The length of a valid sequence at the front, or 0 and in `bad` how many bytes to replace by one U+FFFD (the
// Unicode Standard's "maximal subpart", which is also what Python does).
inline size_t valid_sequence(std::string_view text, size_t &bad) {
    auto byte = [&](size_t index) { return index < text.size() ? int(uint8_t(text[index])) : -1; };
    int head = byte(0);
    bad = 1;
    if (head < 0x80) return 1;
    int low = 0x80, high = 0xBF;
    size_t length;
    if (head >= 0xC2 && head <= 0xDF) length = 2;
    else if (head >= 0xE0 && head <= 0xEF) {
        length = 3;
        if (head == 0xE0) low = 0xA0;
        if (head == 0xED) high = 0x9F;
    } else if (head >= 0xF0 && head <= 0xF4) {
        length = 4;
        if (head == 0xF0) low = 0x90;
        if (head == 0xF4) high = 0x8F;
    } else return 0;
    for (size_t index = 1; index < length; index++) {
        int next = byte(index);
        if (next < low || next > high) {
            bad = index;
            return 0;
        }
        low = 0x80;
        high = 0xBF;
    }
    return length;
}

// White space as Unicode has it; the property is closed for good but for U+180E, which lost it in 2014.
inline bool is_white_space(uint32_t point) {
    return (point >= 9 && point <= 13) || point == 32 || point == 0x85 || point == 0xA0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 || point == 0x202F ||
           point == 0x205F || point == 0x3000;
}

}  // namespace embed
