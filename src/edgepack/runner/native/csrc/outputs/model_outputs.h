// What a bundle's model gives of a text, as the manifest's `model.outputs` says it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "embedder/bundle.h"

namespace embed {

// How a query, or a document, is read for its tokens' vectors. No id: UINT32_MAX.
struct ReadOptions {
    uint32_t marker = UINT32_MAX, expand = UINT32_MAX;
    size_t length = 0, least = 0;
    bool attend = false;
    std::string prefix;
    std::vector<uint32_t> skip;
};

struct TextOutputs {
    std::vector<float> vector;   // of the text
    std::vector<uint32_t> ids;   // rising
    std::vector<float> weights;  // of these tokens
    std::vector<float> vectors;  // of tokens, one after the other
};

struct ModelOutputs {
    bool dense = false, sparse = false, of_vocabulary = false;
    size_t vocabulary = 0, width = 0, first = 0;  // width: numbers in a token's vector; 0: tokens have none
    std::vector<uint32_t> skip;
    ReadOptions query, document;

    // A code of 4 for a manifest that is damaged.
    Error open(const Bundle &bundle);
    // How the texts of a prefix are read.
    const ReadOptions &side(const std::string &prefix) const { return prefix == "query" ? query : document; }
    // Numbers that the graph gives for each token.
    size_t each_token() const { return width + (sparse && !of_vocabulary ? 1 : 0); }
    // What the model is, as messages say it.
    const char *noun() const {
        return dense ? "an embedding model" : sparse ? "a sparse encoder" : "a multi-vector encoder";
    }
};

}  // namespace embed
