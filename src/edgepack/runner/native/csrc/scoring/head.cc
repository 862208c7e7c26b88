#include "scoring/head.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "features/feature.h"

namespace embed {

Error Head::open(const Bundle &bundle) {
    std::string path, content;
    if (Error error = bundle.file("model", "head", path)) return error;
    if (Error error = read_file(path, content)) return error;
    if (const Json *listed = bundle.manifest.at("model", "labels"))
        for (const Json &label : listed->items) labels.push_back(label.text);
    activation = bundle.text("model", "activation");
    dimension = bundle.dimension;
    if (labels.empty() || content.size() != uint64_t(labels.size()) * (dimension + 1) * sizeof(float))
        return fail(BUNDLE, path + " is damaged: it is not of the size that labels and dimension ask for",
                    COPY_AGAIN);
    numbers.resize(content.size() / sizeof(float));
    memcpy(numbers.data(), content.data(), content.size());
    for (float number : numbers)
        if (!std::isfinite(number))
            return fail(BUNDLE, path + " is damaged: it has numbers that are not finite", COPY_AGAIN);
    return {};
}

void Head::scores(const float *vector, std::vector<double> &scores) const {
    scores.clear();
    double highest = -INFINITY, sum = 0;
    for (size_t label = 0; label < labels.size(); label++) {
        double score = double(numbers[labels.size() * dimension + label]);
        for (size_t at = 0; at < dimension; at++)
            score += double(numbers[label * dimension + at]) * double(vector[at]);
        highest = std::max(highest, score);
        scores.push_back(score);
    }
    bool apart = activation == "one-vs-rest", shares = apart || activation == "softmax";
    if (apart || activation == "sigmoid")
        for (double &score : scores) score = 1 / (1 + std::exp(-score));
    if (!shares) return;
    for (double &score : scores) sum += score = apart ? score : std::exp(score - highest);
    for (double &score : scores) score /= sum > 0 ? sum : 1;
}

Error Head::encode_pairs(const Embedder &embedder, std::string_view query,
                         const std::vector<std::string_view> &texts, std::vector<Encoding> &rows) const {
    return embedder.encode_pairs(query, texts, rows);
}

namespace {

Error open_head(const Bundle &bundle, std::unique_ptr<Scorer> &scorer) {
    auto head = std::make_unique<Head>();
    Error error = head->open(bundle);
    scorer = std::move(head);
    return error;
}

}  // namespace

extern const Feature HEAD_FEATURE = [] {
    Feature feature;
    feature.name = "scores";
    feature.open_scorer = open_head;
    return feature;
}();

}  // namespace embed
