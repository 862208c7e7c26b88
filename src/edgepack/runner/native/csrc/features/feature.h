// What a program or a library may have beside embedding. Each part is a source file with a descriptor;
// FEATURES, which is generated (sources.py), lists those that this program has.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "encoder/encoder.h"
#include "scoring/scorer.h"

struct embed_bundle;
struct embed_rows;

namespace embed {

struct Options;
struct EmbedOptions;
struct Batching;

// What a part does; null: nothing of that kind.
struct Feature {
    const char *name = "";
    // Those of which the options may ask it something, of Command together.
    uint8_t commands = 0;
    // What the command line asks of it; `done` false: others go on. A code of 2 for what the bundle's model
    // is not made for.
    Error (*run)(const Options &options, const Bundle &bundle, bool &done) = nullptr;
    // Everything in the folder of an open bundle is what was signed with this key (PEM). A code of 2 for what
    // is no such key, of 4 for what is not signed so.
    Error (*check_signature)(const Bundle &bundle, const std::string &key) = nullptr;
    // Opens the model of a bundle that was made for a device beside the processor; leaves `encoder` null for
    // another.
    Error (*open_encoder)(const Bundle &bundle, const EmbedOptions &options, int threads, Batching &batching,
                          std::unique_ptr<Encoder> &encoder) = nullptr;
    // Which device a bundle is for, and which one really computes, or why it is another.
    std::string (*provider_of)(const Bundle &bundle) = nullptr;
    void (*add_placement)(const Placement &placed, Json &said) = nullptr;
    // " on PROVIDER (DEVICE)" of what that has added.
    std::string (*placed_on)(const Json &said) = nullptr;
    // Before the process ends, which takes nothing else apart.
    void (*end)() = nullptr;
    // The last layer of a reranker or a classifier.
    Error (*open_scorer)(const Bundle &bundle, std::unique_ptr<Scorer> &scorer) = nullptr;
    // Vectors of parts of each row: `ends` are behind the last token of each.
    Error (*pool_chunks)(const Encoder &encoder, const Batch &batch,
                         const std::vector<std::vector<size_t>> &ends, size_t dimension,
                         std::vector<float> &vectors) = nullptr;
    // embed_outputs() of libembed.
    Error (*library_outputs)(const embed_bundle &bundle, const std::vector<std::string> &texts,
                             float *vectors, embed_rows *sparse, embed_rows *multi_vector) = nullptr;
};

// Ends with null. In the order in which they are asked.
extern const Feature *const FEATURES[];
// The key that every bundle has to be signed with, in PEM; null: none.
extern const char *const REQUIRED_KEY;

// Whether the program was built with this.
bool has_feature(const char *name);
// The first one that does this; null: there is none.
template <class Function> Function feature_with(Function Feature::*function) {
    for (const Feature *const *each = FEATURES; *each; each++)
        if ((*each)->*function) return (*each)->*function;
    return nullptr;
}

// As Feature::check_signature; a code of 2 where the program was built without.
Error check_signature(const Bundle &bundle, const std::string &key);

}  // namespace embed
