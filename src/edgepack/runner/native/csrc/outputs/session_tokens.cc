// What each token has, from the same run that makes the text's vector.
#include "ort/session.h"

namespace embed {

Error Session::run_tokens(Batch &batch, size_t dimension, std::vector<float> &vectors, size_t width, std::vector<float> &tokens) const {
    OrtValue *outputs[2] = {};
    const char *names[2] = {output_.c_str(), "token_embeddings"};
    Error error = compute(batch, names, width ? 2 : 1, outputs);
    if (!error) error = read(outputs[0], {batch.rows, dimension}, vectors);
    if (!error && width) error = read(outputs[1], {batch.rows, batch.length, width}, tokens);
    for (OrtValue *output : outputs)
        if (output) ort_->ReleaseValue(output);
    if (returns_pages_) model_.release_pages();
    return error;
}

}  // namespace embed
