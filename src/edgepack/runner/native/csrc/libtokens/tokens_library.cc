// The tokenizer as a library of its own, for the program in Python.
#include <algorithm>
#include <cstdio>

#include "tokenizer/tokenizer.h"

extern "C" {

// A code of 4 for a table that is damaged, which `error` then names.
__attribute__((visibility("default"))) int tokens_open(const char *path, embed::Tokenizer **tokenizer, char *error, size_t size) {
    auto made = std::make_unique<embed::Tokenizer>();
    embed::Error failure = made->open(path);
    if (failure) snprintf(error, size, "%s", failure.message.c_str());
    else *tokenizer = made.release();
    return failure.code;
}

// The id that fills batches, how many ids there are, and how many special ones go before a text and after it.
__attribute__((visibility("default"))) void tokens_facts(const embed::Tokenizer *tokenizer, size_t facts[4]) {
    facts[0] = tokenizer->pad_id();
    facts[1] = tokenizer->size();
    facts[2] = tokenizer->before();
    facts[3] = tokenizer->special_tokens() - tokenizer->before();
}

// How many ids and types the text gives, which is valid UTF-8; there is room for max_length of them, and one at least.
__attribute__((visibility("default"))) size_t tokens_encode(const embed::Tokenizer *tokenizer, const char *text, size_t length,
                                                            size_t max_length, int64_t *ids, int64_t *types) {
    embed::Encoding encoding;
    tokenizer->encode({text, length}, max_length, encoding);
    std::copy(encoding.ids.begin(), encoding.ids.end(), ids);
    std::copy(encoding.types.begin(), encoding.types.end(), types);
    return encoding.ids.size();
}

// The same of two texts together; a code of 0 where the table knows no pairs.
__attribute__((visibility("default"))) size_t tokens_encode_pair(const embed::Tokenizer *tokenizer, const char *first, size_t first_length,
                                                                 const char *second, size_t second_length, size_t max_length,
                                                                 int64_t *ids, int64_t *types) {
    embed::Encoding encoding;
    embed::Ids parts[2];
    if (!tokenizer->knows_pairs() || max_length < tokenizer->pair_tokens() + 2) return 0;
    tokenizer->encode_part({first, first_length}, parts[0]);
    tokenizer->encode_part({second, second_length}, parts[1]);
    tokenizer->join(parts[0], parts[1], max_length, encoding);
    std::copy(encoding.ids.begin(), encoding.ids.end(), ids);
    std::copy(encoding.types.begin(), encoding.types.end(), types);
    return encoding.ids.size();
}

}  // extern "C"
