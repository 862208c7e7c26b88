// In the place of scores.cc, where the bundle's model makes embeddings.
#include "libembed/opened.h"

namespace embed {

Error open_head(embed_bundle &) { return {}; }

}  // namespace embed

extern "C" {

const char *embed_label(const embed_bundle *, size_t) { return nullptr; }

int embed_scores(const embed_bundle *bundle, const char *, const char *const *, const size_t *, size_t, float *, char *error, size_t error_size) {
    return embed::answer(embed::fail(embed::USAGE, bundle->bundle.text("model", "name") + " is an embedding model: it gives no scores"), error, error_size);
}

}  // extern "C"
