// What embed.h offers of models that give more than one vector a text.
#include <algorithm>

#include "features/feature.h"
#include "libembed/opened.h"
#include "outputs/model_outputs.h"

namespace {

using embed::Error;
using embed::TextOutputs;

// Arrays of C, of rows that `count_of` says each text has.
template <class Count> void start_rows(embed_rows *rows, const std::vector<TextOutputs> &made, size_t width,
                                       Count count_of) {
    rows->texts = made.size();
    rows->width = width;
    rows->offsets = new size_t[made.size() + 1];
    rows->offsets[0] = 0;
    for (size_t at = 0; at < made.size(); at++)
        rows->offsets[at + 1] = rows->offsets[at] + count_of(made[at]);
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

Error run(const embed_bundle &bundle, const std::vector<std::string> &texts, float *vectors,
          embed_rows *sparse, embed_rows *multi_vector) {
    embed::ModelOutputs given;
    if (Error failure = given.open(bundle.bundle)) return failure;
    if ((vectors && !given.dense) || (sparse && !given.sparse) || (multi_vector && !given.width))
        return embed::fail(embed::USAGE, bundle.bundle.text("model", "name") + " is " + given.noun() +
                                             ": it does not give all that is asked for");
    std::vector<TextOutputs> made;
    if (Error failure = bundle.embedder.embed_outputs(given, given.side(bundle.prefix),
                                                      {texts.begin(), texts.end()}, made))
        return failure;
    for (const TextOutputs &one : made)
        if (vectors) vectors = std::copy(one.vector.begin(), one.vector.end(), vectors);
    if (sparse) give_sparse(sparse, made);
    if (multi_vector) give_vectors(multi_vector, made, given.width);
    return {};
}

}  // namespace

namespace embed {

extern const Feature LIBRARY_OUTPUTS_FEATURE = [] {
    Feature feature;
    feature.name = "outputs";
    feature.library_outputs = ::run;
    return feature;
}();

}  // namespace embed
