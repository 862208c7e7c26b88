// JSON with its order kept, and its numbers as they were written. NaN and Infinity are numbers, as Python and
// JavaScript's libraries write them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace embed {

struct Json {
    enum Kind { NONE, TRUTH, NUMBER, STRING, ARRAY, OBJECT };
    Kind kind = NONE;
    // A string's content (an unpaired surrogate as three bytes, as if it were a character), a number as it
    // was written, or `true` or `false`.
    std::string text;
    std::vector<Json> items;
    std::vector<std::pair<std::string, Json>> members;
    bool twins = false;  // of two members with one name the first was dropped

    bool is(Kind wanted) const { return kind == wanted; }
    // A member; null when this is no object or has none of that name.
    const Json *get(std::string_view name) const;
    // The member at the end of a path, e.g. {"model", "dimension"}.
    template <class... Names> const Json *at(std::string_view name, Names... rest) const {
        const Json *found = get(name);
        if constexpr (sizeof...(rest) > 0) return found ? found->at(rest...) : nullptr;
        else return found;
    }
    double number() const;
    // Whether a member was dropped, here or further in.
    bool has_twins() const;
    bool truth() const { return kind == TRUTH ? text == "true" : kind == NUMBER && number() != 0; }
};

// False when the text is not one JSON value, or more than `most`, each of which takes a hundred bytes; then
// `message` says what is wrong and `position` (in characters) where.
bool parse_json(std::string_view text, Json &value, std::string &message, size_t &position,
                size_t most = SIZE_MAX);

// `indent` 0 writes on one line.
void write_json(const Json &value, std::string &out, int indent, bool ascii, int level = 0);
void write_json_string(std::string_view text, std::string &out, bool ascii);

}  // namespace embed
