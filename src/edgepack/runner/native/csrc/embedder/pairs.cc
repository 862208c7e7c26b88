// Pairs of texts, for models that read both.
#include "embedder/embedder.h"

namespace embed {

Error Embedder::encode_pairs(std::string_view first, const std::vector<std::string_view> &seconds,
                             std::vector<Encoding> &encoded) const {
    if (!tokenizer_.knows_pairs())
        return fail(BUNDLE, "the bundle's tokenizer does not take pairs of texts", COPY_AGAIN);
    size_t specials = tokenizer_.pair_tokens();
    if (max_length_ < specials + 2)
        return fail(USAGE, "--max-length " + std::to_string(max_length_) +
                               " leaves no room for two texts beside the " + std::to_string(specials) +
                               " special tokens");
    Ids one, other;
    encoded.resize(seconds.size());
    if (tokenizer_.hosted()) {
        for (size_t index = 0; index < seconds.size(); index++)
            if (Error error = tokenizer_.encode_pair(first, seconds[index], max_length_, encoded[index]))
                return error;
        return {};
    }
    tokenizer_.encode_part(first, one);
    for (size_t index = 0; index < seconds.size(); index++) {
        tokenizer_.encode_part(seconds[index], other);
        tokenizer_.join(one, other, max_length_, encoded[index]);
    }
    return {};
}

}  // namespace embed
