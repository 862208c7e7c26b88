// What makes scores of vectors, where the program has it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "embedder/embedder.h"

namespace embed {

struct Scorer {
    std::vector<std::string> labels;
    size_t dimension = 0;

    virtual ~Scorer() = default;
    // Rows of tokens: of each text with the query before it.
    virtual Error encode_pairs(const Embedder &embedder, std::string_view query,
                               const std::vector<std::string_view> &texts,
                               std::vector<Encoding> &rows) const = 0;
    // One for each label, of the encoder's vector.
    virtual void scores(const float *vector, std::vector<double> &scores) const = 0;
};

}  // namespace embed
