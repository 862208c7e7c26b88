// Texts from arguments or a stream: what has come is handed on at once, in windows, so that memory stays
// flat.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "program/options.h"

namespace embed {

constexpr size_t WINDOW_BATCHES =
    32;  // batches that are read ahead, so that texts of like length meet in one

// A text, the number of its line, and the JSON object that it came in.
struct Record {
    std::string text, line;
    size_t number = 0;
    Json source;
};

using Take = std::function<Error(std::vector<Record> &)>;

// Hands the records to `take`, `size` at most at a time; what comes before a bad line is handed out before
// the error.
Error read_records(const Options &options, size_t size, const Take &take);
bool is_terminal(int descriptor);
// A code of 2: no text came.
Error no_text(const Options &options, const char *why = ": the input is empty, or every line was skipped");
// The text with what steers a terminal as what it only shows: names of files and models are a stranger's
// words.
std::string harmless(const std::string &text, const char *form = "\\x%02x");
// On standard error, whatever state it is in.
void say(const std::string &text);

}  // namespace embed
