// What may stand on the command line, as the frozen program has it (runner/frozen/program/options.py).
#pragma once
#include <string>
#include <vector>

#include "embedder/embedder.h"
#include "base/error.h"

namespace embed {

struct Options {
    std::vector<std::string> texts, similarity;
    std::string input, text_field, id_field, output_format, output, public_key, dtype = "f32", prefix;
    bool has_input = false, has_output = false, has_id_field = false, has_public_key = false;
    size_t dim = 0, max_length = 0, batch_size = 0, threads = 0;
    bool jsonl = false, strict = false, skip_bad = false, info = false, self_test = false, warmup = false, bench = false, version = false, check = false;
    bool json = false, tokens = false, help = false;
    // Of bundles whose model ranks or classifies.
    std::string rerank;
    bool has_rerank = false, classify = false, pairs = false, features = false;
    // The option that asks for scores; null: none does.
    const char *scores() const { return has_rerank ? "--rerank" : classify ? "--classify" : pairs ? "--pairs" : nullptr; }
    // Of bundles whose model gives more than a vector a text.
    bool sparse = false, multi_vector = false, dense = false;
    const char *outputs() const { return sparse ? "--sparse" : multi_vector ? "--multi-vector" : dense ? "--dense" : nullptr; }
    // Of `embed search`.
    std::string query, queries, index;
    bool search = false, has_queries = false, has_index = false;
    size_t nearest = 10;
    double least = -1;

    Wishes wishes() const { return {batch_size, max_length, dim, int(threads), texts.size() == 1 || !similarity.empty(), prefix}; }
    // What is done in the place of embedding, e.g. "self_test"; empty when nothing is.
    std::string instead() const;
};

// A code of 2 for what makes no sense.
Error parse_options(int count, char **words, Options &options);

}  // namespace embed
