// The last layer of a reranker or a classifier: scores = activation(weight · vector + bias).
#pragma once
#include "scoring/scorer.h"

namespace embed {

struct Head final : Scorer {
    std::string activation;
    std::vector<float> numbers;  // weight [labels, dimension], then bias [labels]

    // A code of 4 for a head that is missing or of another size.
    Error open(const Bundle &bundle);
    Error encode_pairs(const Embedder &embedder, std::string_view query,
                       const std::vector<std::string_view> &texts,
                       std::vector<Encoding> &rows) const override;
    void scores(const float *vector, std::vector<double> &scores) const override;
};

}  // namespace embed
