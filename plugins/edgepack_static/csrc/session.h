// A table of vectors: token ids [batch, sequence] in, the mean of their rows out, float32 [batch, dimension].
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "tokenizer/table.h"

namespace embed {

// Rows of equal length, one after the other.
struct Batch {
    size_t rows = 0, length = 0;
    std::vector<int64_t> ids, mask, types;
};

class Session {
public:
    static constexpr const char *INSTEAD = "none: the mean of a table's rows", *NAME = "";
    static constexpr bool REDUCED = false;

    // Maps the table; a code of 4 for one that is damaged.
    Error open(const std::string &library, const std::string &model, int threads);
    // Appends rows x dimension numbers to `vectors`. Thread-safe.
    Error run(const Batch &batch, size_t dimension, std::vector<float> &vectors) const;

private:
    // As table.py writes it.
    struct Header {
        char magic[8];
        uint64_t size;
        uint32_t number_bytes, rows, dimension, tokens, unknown, flags, row_bytes, reserved[5];
    };
    static_assert(sizeof(Header) == 64);

    bool sound() const;
    void add(uint32_t token, float *sum) const;
    // Adds up the rows of a text's tokens; how many these were.
    size_t add_all(const int64_t *ids, size_t count, bool unknown_too, float *sum) const;

    Mapping file_;
    Header header_{};
    const uint8_t *vectors_ = nullptr, *rows_ = nullptr;
    const float *row_scales_ = nullptr, *token_scales_ = nullptr;
};

}  // namespace embed
