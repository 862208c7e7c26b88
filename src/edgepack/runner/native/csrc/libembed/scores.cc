// Scores of a reranker or a classifier.
#include <cstring>

#include "base/text.h"
#include "libembed/opened.h"

namespace embed {

namespace {

Error score(const embed_bundle &bundle, const char *query, const std::vector<std::string> &texts,
            float *scores) {
    const Embedder &embedder = bundle.embedder;
    const std::string name = bundle.bundle.text("model", "name");
    if (!bundle.scorer) return fail(USAGE, name + " is an embedding model: it gives no scores");
    const Scorer &scorer = *bundle.scorer;
    if (!query && bundle.bundle.text("model", "task") == "rank")
        return fail(USAGE, name + " is a reranker: it ranks texts by a query");
    if (embedder.dimension() != scorer.dimension)
        return fail(USAGE, "scores take whole vectors: the bundle was opened with fewer dimensions");
    std::vector<Encoding> encoded(texts.size());
    if (query) {
        std::string asked;
        if (Error error = decode(query, "", false, asked)) return error;
        if (Error error = scorer.encode_pairs(embedder, asked, {texts.begin(), texts.end()}, encoded))
            return error;
    } else {
        for (size_t index = 0; index < texts.size(); index++)
            if (Error error = embedder.encode(texts[index], encoded[index])) return error;
    }
    std::vector<float> vectors;
    if (Error error = embedder.embed_tokens(encoded, vectors)) return error;
    std::vector<double> made;
    for (size_t index = 0; index < texts.size(); index++) {
        scorer.scores(&vectors[index * scorer.dimension], made);
        for (double each : made) *scores++ = float(each);
    }
    return {};
}

}  // namespace

}  // namespace embed

extern "C" {

const char *embed_label(const embed_bundle *bundle, size_t index) {
    return bundle->scorer && index < bundle->scorer->labels.size() ? bundle->scorer->labels[index].c_str()
                                                                   : nullptr;
}

int embed_scores(const embed_bundle *bundle, const char *query, const char *const *texts,
                 const size_t *lengths, size_t count, float *scores, char *error, size_t error_size) {
    std::vector<std::string> valid;
    embed::Error failure = embed::decode_all(texts, lengths, count, valid);
    if (!failure) failure = embed::score(*bundle, query, valid, scores);
    return embed::answer(failure, error, error_size);
}

}  // extern "C"
