// An option of the command line, as the table that is generated of options.toml has it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace embed {

enum Command : uint8_t { EMBED = 1, SEARCH = 2, SERVE = 4 };

struct OptionValues;

// Where an option's value goes; what it points to says how the value is read.
struct OptionField {
    enum Kind : uint8_t { FLAG, TEXT, LIST, WHOLE, REAL };
    Kind kind;
    union {
        bool OptionValues::*flag;
        std::string OptionValues::*text;
        std::vector<std::string> OptionValues::*list;
        size_t OptionValues::*whole;
        double OptionValues::*real;
    };

    constexpr OptionField(bool OptionValues::*place) : kind(FLAG), flag(place) {}
    constexpr OptionField(std::string OptionValues::*place) : kind(TEXT), text(place) {}
    constexpr OptionField(std::vector<std::string> OptionValues::*place) : kind(LIST), list(place) {}
    constexpr OptionField(size_t OptionValues::*place) : kind(WHOLE), whole(place) {}
    constexpr OptionField(double OptionValues::*place) : kind(REAL), real(place) {}
};

struct Option {
    const char *name;
    OptionField field;
    bool OptionValues::*seen;  // turns true where it stands; may be null
    const char *choices;       // with commas between; null: any text
    int least, most;           // of a number
    uint8_t commands;          // of Command, together
    uint8_t count;             // values at once; 0 of a list: one, and it may come again
    bool alone;                // one of these at most
};

}  // namespace embed
