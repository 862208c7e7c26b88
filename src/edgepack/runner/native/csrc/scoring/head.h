// The last layer of a reranker or a classifier: scores = activation(weight · vector + bias).
#pragma once
#include <string>
#include <vector>

#include "embedder/bundle.h"

namespace embed {

struct Head {
    std::vector<std::string> labels;
    std::string activation;
    std::vector<float> numbers;  // weight [labels, dimension], then bias [labels]
    size_t dimension = 0;

    // A code of 4 for a head that is missing or of another size.
    Error open(const Bundle &bundle);
    // One for each label, of the encoder's vector.
    void scores(const float *vector, std::vector<double> &scores) const;
};

}  // namespace embed
