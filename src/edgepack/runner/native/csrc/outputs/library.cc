// What embed.h offers of models that give more than one vector a text.
#include <algorithm>

#include "libembed/opened.h"
#include "outputs/given.h"

namespace {

using embed::Error;
using embed::TextOutputs;

// Arrays of C, of rows that `count_of` says each text has.
template <class Count> void start_rows(embed_rows *rows, const std::vector<TextOutputs> &made, size_t width, Count count_of) {
    rows->texts = made.size();
    rows->width = width;
    rows->offsets = new size_t[made.size() + 1];
    rows->offsets[0] = 0;
    for (size_t at = 0; at < made.size(); at++) rows->offsets[at + 1] = rows->offsets[at] + count_of(made[at]);
    rows->values = new float[rows->offsets[made.size()] * width];
    rows->ids = nullptr;
}

void give_sparse(embed_rows *rows, const std::vector<TextOutputs> &made) {
    start_rows(rows, made, 1, [](const TextOutputs &one) { return one.ids.size(); });
    rows->ids = new uint32_t[rows->offsets[made.size()]];
    for (size_t at = 0; at < made.size(); at++) {
        std::copy(made[at].ids.begin(), made[at].ids.end(), rows->ids + rows->offsets[at]);
        std::copy(made[at].weights.begin(), made[at].weights.end(), rows->values + rows->offsets[at]);
    }
}

void give_vectors(embed_rows *rows, const std::vector<TextOutputs> &made, size_t width) {
    start_rows(rows, made, width, [&](const TextOutputs &one) { return one.vectors.size() / width; });
    for (size_t at = 0; at < made.size(); at++)
        std::copy(made[at].vectors.begin(), made[at].vectors.end(), rows->values + rows->offsets[at] * width);
}

Error run(const embed_bundle *bundle, const char *const *texts, const size_t *lengths, size_t count, float *vectors, embed_rows *sparse,
          embed_rows *multi_vector) {
    embed::Given given;
    if (Error failure = given.open(bundle->bundle)) return failure;
    if ((vectors && !given.dense) || (sparse && !given.sparse) || (multi_vector && !given.width))
        return embed::fail(embed::USAGE, bundle->bundle.text("model", "name") + " is " + given.noun() + ": it does not give all that is asked for");
    std::vector<std::string> valid;
    std::vector<TextOutputs> made;
    if (Error failure = embed::decode_all(texts, lengths, count, valid)) return failure;
    if (Error failure = bundle->embedder.embed_outputs(given, given.side(bundle->prefix), {valid.begin(), valid.end()}, made)) return failure;
    for (size_t at = 0; vectors && at < count; at++) vectors = std::copy(made[at].vector.begin(), made[at].vector.end(), vectors);
    if (sparse) give_sparse(sparse, made);
    if (multi_vector) give_vectors(multi_vector, made, given.width);
    return {};
}

}  // namespace

extern "C" {

int embed_outputs(const embed_bundle *bundle, const char *const *texts, const size_t *lengths, size_t count, float *vectors,
                  embed_rows *sparse, embed_rows *multi_vector, char *error, size_t error_size) {
    return embed::answer(run(bundle, texts, lengths, count, vectors, sparse, multi_vector), error, error_size);
}

void embed_free_rows(embed_rows *rows) {
    if (!rows) return;
    delete[] rows->offsets;
    delete[] rows->values;
    delete[] rows->ids;
    *rows = {};
}

}  // extern "C"
