// An open bundle, and what the library's functions share.
#pragma once
#include "embedder/embedder.h"
#include "libembed/embed.h"
#include "scoring/scorer.h"

struct embed_bundle {
    embed::Bundle bundle;
    embed::Embedder embedder;
    std::unique_ptr<embed::Scorer> scorer;  // null where the model makes embeddings
    std::string prefix;
};

namespace embed {

// The code; the sentence goes into `error`.
int answer(const Error &failure, char *error, size_t error_size);
// The caller's texts as valid UTF-8.
Error decode_all(const char *const *texts, const size_t *lengths, size_t count,
                 std::vector<std::string> &valid);

}  // namespace embed
