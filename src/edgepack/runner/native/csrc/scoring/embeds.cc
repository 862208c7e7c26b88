// In the place of scoring.cc, where the bundle's model makes embeddings.
#include "scoring/scoring.h"

namespace embed {

Error score_texts(const Options &options, const Bundle &bundle, bool &) {
    if (!options.scores()) return {};
    return fail(USAGE, options.scores() + (": " + bundle.text("model", "name")) + " is an embedding model",
                "embed search \"a query\" FILE finds the nearest texts; for scores, build a bundle of a reranker or a classifier");
}

}  // namespace embed
