#include "base/text.h"

#include <cstdio>

#include "base/utf8.h"

namespace embed {

namespace {

constexpr const char *REPLACEMENT = "\xEF\xBF\xBD";

bool is_space(uint32_t point) {
    return (point >= 9 && point <= 13) || (point >= 28 && point <= 32) || point == 0x85 || point == 0xA0 ||
           point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
           point == 0x202F || point == 0x205F || point == 0x3000;
}

}  // namespace

Error decode(std::string_view raw, const std::string &where, bool strict, std::string &text) {
    text.clear();
    text.reserve(raw.size());
    for (size_t at = 0; at < raw.size();) {
        size_t plain = at;
        while (at < raw.size() && uint8_t(raw[at]) < 0x80) at++;
        text += raw.substr(plain, at - plain);
        if (at == raw.size()) break;
        size_t bad = 1, length = valid_sequence(raw.substr(at), bad);
        if (length) {
            text += raw.substr(at, length);
            at += length;
            continue;
        }
        if (strict) {
            char byte[8];
            snprintf(byte, sizeof byte, "0x%02x", uint8_t(raw[at]));
            return fail(INPUT, where + " is not UTF-8: byte " + std::to_string(at + 1) + " is " + byte,
                        "without --strict, such bytes are replaced by U+FFFD");
        }
        text += REPLACEMENT;
        at += bad;
    }
    return {};
}

Error without_surrogates(std::string &text, const std::string &where, bool strict) {
    for (size_t at = 0; (at = text.find('\xED', at)) != std::string::npos; at += 3) {
        if (at + 1 >= text.size() || uint8_t(text[at + 1]) < 0xA0) continue;
        if (strict)
            return fail(INPUT, where + " has an unpaired surrogate",
                        "without --strict, it is replaced by U+FFFD");
        text.replace(at, 3, REPLACEMENT);
    }
    return {};
}

std::string_view stripped_right(std::string_view text) {
    while (!text.empty()) {
        size_t start = text.size() - 1;
        while (start > 0 && (uint8_t(text[start]) & 0xC0) == 0x80) start--;
        size_t at = start;
        if (!is_space(next_code_point(text, at))) break;
        text = text.substr(0, start);
    }
    return text;
}

std::string_view stripped(std::string_view text) {
    text = stripped_right(text);
    while (!text.empty()) {
        size_t at = 0;
        if (!is_space(next_code_point(text, at))) break;
        text = text.substr(at);
    }
    return text;
}

}  // namespace embed
