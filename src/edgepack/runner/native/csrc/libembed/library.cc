#include <cstdio>
#include <cstring>

#include "libembed/embed.h"
#include "embedder/embedder.h"
#include "base/text.h"

struct embed_bundle {
    embed::Bundle bundle;
    embed::Embedder embedder;
};

namespace {

int answer(const embed::Error &failure, char *error, size_t error_size) {
    if (failure && error && error_size) snprintf(error, error_size, "%s", failure.message.c_str());
    return failure.code;
}

embed::Wishes wishes_of(const embed_options *options) {
    if (!options) return {};
    return {options->batch_size, options->max_length, options->dimension, options->threads, false, options->prefix ? options->prefix : ""};
}

}  // namespace

extern "C" {

int embed_open(const char *directory, const embed_options *options, embed_bundle **bundle, char *error, size_t error_size) {
    auto made = std::make_unique<embed_bundle>();
    *bundle = nullptr;
    embed::Error failure = made->bundle.open(directory);
    if (!failure) failure = made->embedder.open(made->bundle, wishes_of(options));
    if (!failure) *bundle = made.release();
    return answer(failure, error, error_size);
}

size_t embed_dimension(const embed_bundle *bundle) { return bundle->embedder.dimension(); }

int embed_texts(const embed_bundle *bundle, const char *const *texts, const size_t *lengths, size_t count, float *vectors,
                char *error, size_t error_size) {
    std::vector<std::string> valid(count);
    std::vector<std::string_view> views;
    for (size_t index = 0; index < count; index++) {
        std::string_view raw(texts[index], lengths ? lengths[index] : strlen(texts[index]));
        if (embed::Error failure = embed::decode(raw, "", false, valid[index])) return answer(failure, error, error_size);
        views.push_back(valid[index]);
    }
    std::vector<float> made;
    embed::Error failure = bundle->embedder.embed(views, made);
    if (!failure) std::copy(made.begin(), made.end(), vectors);
    return answer(failure, error, error_size);
}

void embed_close(embed_bundle *bundle) { delete bundle; }

}  // extern "C"
