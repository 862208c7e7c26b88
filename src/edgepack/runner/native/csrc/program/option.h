// An option of the command line, as the table that is generated of options.toml has it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace embed {

enum Command : uint8_t { EMBED = 1, SEARCH = 2, SERVE = 4 };

struct OptionValues;

// Where an option's value goes.
union OptionPlace {
    bool OptionValues::*flag;
    std::string OptionValues::*text;
    std::vector<std::string> OptionValues::*list;
    size_t OptionValues::*whole;
    double OptionValues::*real;

    constexpr OptionPlace(bool OptionValues::*place) : flag(place) {}
    constexpr OptionPlace(std::string OptionValues::*place) : text(place) {}
    constexpr OptionPlace(std::vector<std::string> OptionValues::*place) : list(place) {}
    constexpr OptionPlace(size_t OptionValues::*place) : whole(place) {}
    constexpr OptionPlace(double OptionValues::*place) : real(place) {}
};

struct Option {
    enum Kind : uint8_t { FLAG, TEXT, LIST, WHOLE, REAL };

    const char *name;
    OptionPlace place;
    bool OptionValues::*seen;  // turns true where it stands; may be null
    const char *choices;       // with commas between; null: any text
    int most;                  // of a number, as `least`
    int8_t least;
    Kind kind;         // how the value is read
    uint8_t commands;  // of Command, together
    uint8_t count;     // values at once; 0 of a list: one, and it may come again. ALONE: one of these at most
    static constexpr uint8_t ALONE = 16;
};

}  // namespace embed
