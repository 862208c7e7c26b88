// What another language's program gives this one, which it has started: Python, of the frozen program
// (program/host.cc).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hosted.h"

namespace embed {

// Of a tokenizer: special tokens before and behind a text, the id that fills batches, how many ids there are,
// special tokens of a pair.
struct TokenizerFacts {
    uint32_t before = 0, after = 0, pad_id = 0, size = 0, pair = 0;
};

class Host {
public:
    virtual ~Host() = default;
    // A tokenizer.json, which is not compiled to a table.
    virtual Error open_tokenizer(const std::string &path, TokenizerFacts &facts) const = 0;
    // Ids and types of a text, or of two together (`second` null: one), `max_length` at most.
    virtual Error encode(std::string_view text, const std::string_view *second, size_t max_length,
                         std::vector<int64_t> &ids, std::vector<int64_t> &types) const = 0;
    // The user's own module around the model, and which of the two it does.
    virtual Error open_module(const std::string &path, bool &prepares, bool &finishes) const = 0;
    virtual Error prepare(const std::vector<std::string_view> &texts,
                          std::vector<std::string> &prepared) const = 0;
    // In place: `dimension` numbers for each text.
    virtual Error finish(const std::vector<std::string_view> &texts, size_t dimension,
                         float *vectors) const = 0;
};

// Null: nobody has started this program. Set once, before anything else is done.
inline const Host *STARTED_BY = nullptr;

}  // namespace embed
