#include "base/json.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/utf8.h"

namespace embed {

const Json *Json::get(std::string_view name) const {
    for (auto &member : members)
        if (member.first == name) return &member.second;
    return nullptr;
}

bool Json::has_twins() const {
    bool found = twins;
    for (auto &item : items) found = found || item.has_twins();
    for (auto &member : members) found = found || member.second.has_twins();
    return found;
}

double Json::number() const { return kind == NUMBER ? strtod(text.c_str(), nullptr) : 0; }

namespace {

constexpr int DEEPEST = 128;  // values within values: a thread's stack may be small

class Parser {
public:
    Parser(std::string_view text, size_t most) : text_(text), left_(most) {}

    bool document(Json &value) {
        blank();
        if (!this->value(value, 0)) return false;
        blank();
        return at_ == text_.size() || wrong("there is more than one value", at_);
    }
    std::string message;
    size_t at_wrong = 0;

private:
    bool wrong(const char *what, size_t where) {
        message = what;
        at_wrong = where;
        return false;
    }
    int here() const { return at_ < text_.size() ? uint8_t(text_[at_]) : -1; }
    void blank() {
        while (at_ < text_.size() && strchr(" \t\n\r", text_[at_]) && text_[at_]) at_++;
    }
    bool word(const char *letters) {
        size_t length = strlen(letters);
        if (text_.substr(at_, length) != letters) return false;
        at_ += length;
        return true;
    }

    bool value(Json &value, int depth) {
        if (!left_--) return wrong("too many values", at_);
        if (depth > DEEPEST) return wrong("values are nested too deeply", at_);
        int head = here();
        if (head == '"') {
            value.kind = Json::STRING;
            at_++;
            return string(value.text);
        }
        if (head == '{') return object(value, depth);
        if (head == '[') return array(value, depth);
        size_t start = at_;
        if (word("null")) return true;
        if (word("true") || word("false")) {
            value.kind = Json::TRUTH;
        } else if (word("NaN") || word("Infinity") || word("-Infinity") || number()) {
            value.kind = Json::NUMBER;
        } else {
            return wrong("a value is missing", start);
        }
        value.text = text_.substr(start, at_ - start);
        return true;
    }

    bool digits() {
        size_t start = at_;
        while (here() >= '0' && here() <= '9') at_++;
        return at_ > start;
    }

    bool number() {
        size_t start = at_;
        if (here() == '-') at_++;
        if (here() == '0') at_++;
        else if (!digits()) {
            at_ = start;
            return false;
        }
        size_t whole = at_;
        if (here() == '.') {
            at_++;
            if (!digits()) {
                at_ = whole;
                return true;
            }
            whole = at_;
        }
        if (here() == 'e' || here() == 'E') {
            at_++;
            if (here() == '+' || here() == '-') at_++;
            if (!digits()) at_ = whole;
        }
        return true;
    }

    bool array(Json &value, int depth) {
        value.kind = Json::ARRAY;
        at_++;
        blank();
        if (here() == ']') return at_++, true;
        for (;;) {
            value.items.emplace_back();
            if (!this->value(value.items.back(), depth + 1)) return false;
            blank();
            if (here() == ']') return at_++, true;
            if (here() != ',') return wrong("',' or ']' is missing", at_);
            at_++;
            blank();
        }
    }

    bool object(Json &value, int depth) {
        value.kind = Json::OBJECT;
        at_++;
        blank();
        if (here() == '}') return at_++, true;
        for (;;) {
            if (here() != '"') return wrong("a name in quotes is missing", at_);
            at_++;
            std::string name;
            if (!string(name)) return false;
            blank();
            if (here() != ':') return wrong("':' is missing", at_);
            at_++;
            blank();
            value.members.emplace_back(std::move(name), Json());
            if (!this->value(value.members.back().second, depth + 1)) return false;
            blank();
            if (here() == '}') return at_++, settle(value), true;
            if (here() != ',') return wrong("',' or '}' is missing", at_);
            at_++;
            blank();
        }
    }

    // Of members of one name the last one counts, in the place of the first.
    static void settle(Json &value) {
        auto &members = value.members;
        std::map<std::string_view, size_t> places;
        size_t kept = 0;
        for (auto &member : members) {
            if (auto found = places.find(member.first); found != places.end()) {
                members[found->second].second = std::move(member.second);
                continue;
            }
            if (&members[kept] != &member) members[kept] = std::move(member);
            places.emplace(members[kept].first, kept);
            kept++;
        }
        value.twins = kept < members.size();
        members.resize(kept);
    }

    bool string(std::string &out) {
        size_t begin = at_ - 1;
        for (;;) {
            size_t plain = at_;
            while (at_ < text_.size() && uint8_t(text_[at_]) >= 0x20 && text_[at_] != '"' &&
                   text_[at_] != '\\')
                at_++;
            out += text_.substr(plain, at_ - plain);
            int next = here();
            if (next < 0) return wrong("a string has no end", begin);
            if (next == '"') return at_++, true;
            if (next != '\\') return wrong("a string has a control character", at_);
            if (!escape(out, begin)) return false;
        }
    }

    bool escape(std::string &out, size_t begin) {
        size_t start = at_++;
        int letter = here();
        if (letter < 0) return wrong("a string has no end", begin);
        static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
        if (letter != 'u') {
            const char *found = letter ? strchr(names, letter) : nullptr;
            if (!found) return wrong("a string has an unknown escape", start);
            out += meanings[found - names];
            at_++;
            return true;
        }
        at_++;
        int32_t point = four(at_);
        if (point < 0) return wrong("a string has an unknown escape", at_);
        at_ += 4;
        if (point >= 0xD800 && point < 0xDC00 && text_.substr(at_, 2) == "\\u") {
            int32_t low = four(at_ + 2);
            if (low >= 0xDC00 && low < 0xE000) {
                point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
                at_ += 6;
            }
        }
        append_code_point(out, uint32_t(point));
        return true;
    }

    int32_t four(size_t at) const {
        int32_t number = 0;
        for (size_t index = at; index < at + 4; index++) {
            int letter = index < text_.size() ? text_[index] : 0;
            int digit = letter >= '0' && letter <= '9'   ? letter - '0'
                        : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
                        : letter >= 'A' && letter <= 'F' ? letter - 'A' + 10
                                                         : -1;
            if (digit < 0) return -1;
            number = number * 16 + digit;
        }
        return number;
    }

    std::string_view text_;
    size_t at_ = 0, left_;
};

}  // namespace

bool parse_json(std::string_view text, Json &value, std::string &message, size_t &position, size_t most) {
    Parser parser(text, most);
    value = Json();
    if (parser.document(value)) return true;
    message = parser.message;
    position = 0;
    for (size_t at = 0; at < parser.at_wrong && at < text.size(); at++)
        if ((uint8_t(text[at]) & 0xC0) != 0x80) position++;
    return false;
}

void write_json_string(std::string_view text, std::string &out, bool ascii) {
    out += '"';
    char escaped[16];
    for (size_t at = 0; at < text.size();) {
        uint8_t byte = uint8_t(text[at]);
        static const char names[] = "\"\\bfnrt", meanings[] = "\"\\\b\f\n\r\t";
        if (const char *found = byte ? strchr(meanings, byte) : nullptr) {
            out += '\\';
            out += names[found - meanings];
            at++;
        } else if (byte < 0x20 || (ascii && byte == 0x7F)) {
            snprintf(escaped, sizeof escaped, "\\u%04x", byte);
            out += escaped;
            at++;
        } else if (byte < 0x80 || (!ascii && (byte != 0xED || uint8_t(text[at + 1]) < 0xA0))) {
            // But for half a surrogate pair, which UTF-8 does not have.
            out += char(byte);
            at++;
        } else {
            uint32_t point = next_code_point(text, at);
            if (point < 0x10000) snprintf(escaped, sizeof escaped, "\\u%04x", point);
            else
                snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x", 0xD800 + ((point - 0x10000) >> 10),
                         0xDC00 + ((point - 0x10000) & 0x3FF));
            out += escaped;
        }
    }
    out += '"';
}

void write_json(const Json &value, std::string &out, int indent, bool ascii, int level) {
    auto line = [&](int depth) {
        if (indent) (out += '\n').append(size_t(depth * indent), ' ');
    };
    const char *comma = indent ? "," : ", ";
    bool first = true;
    switch (value.kind) {
        case Json::NONE: out += "null"; return;
        case Json::TRUTH:
        case Json::NUMBER: out += value.text; return;
        case Json::STRING: return write_json_string(value.text, out, ascii);
        case Json::ARRAY:
            out += '[';
            for (auto &item : value.items) {
                if (!first) out += comma;
                first = false;
                line(level + 1);
                write_json(item, out, indent, ascii, level + 1);
            }
            if (!first) line(level);
            out += ']';
            return;
        case Json::OBJECT:
            out += '{';
            for (auto &member : value.members) {
                if (!first) out += comma;
                first = false;
                line(level + 1);
                write_json_string(member.first, out, ascii);
                out += ": ";
                write_json(member.second, out, indent, ascii, level + 1);
            }
            if (!first) line(level);
            out += '}';
    }
}

}  // namespace embed
