#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "features/feature.h"
#include "libembed/opened.h"

namespace embed {

int answer(const Error &failure, char *error, size_t error_size) {
    if (failure && error && error_size) snprintf(error, error_size, "%s", failure.message.c_str());
    return failure.code;
}

Error decode_all(const char *const *texts, const size_t *lengths, size_t count,
                 std::vector<std::string> &valid) {
    valid.resize(count);
    for (size_t index = 0; index < count; index++) {
        std::string_view raw(texts[index], lengths ? lengths[index] : strlen(texts[index]));
        if (Error failure = decode(raw, "", false, valid[index])) return failure;
    }
    return {};
}

}  // namespace embed

namespace {

// A file as the system knows it: another content has another time.
using Identity = std::array<uint64_t, 8>;

bool identify(const std::string &path, Identity &identity) {
    struct stat found;
    embed::File file;
    if (file.open(path)) return false;
    if (file.linked()) return identity = {file.start()}, true;
    if (fstat(file.descriptor(), &found)) return false;
    identity = {uint64_t(found.st_dev),          uint64_t(found.st_ino),
                uint64_t(found.st_size),         uint64_t(found.st_mtim.tv_sec),
                uint64_t(found.st_mtim.tv_nsec), uint64_t(found.st_ctim.tv_sec),
                uint64_t(found.st_ctim.tv_nsec), file.start()};
    return true;
}

embed::Error check(const embed::Bundle &bundle, int how) {
    static std::mutex mutex;
    static std::vector<std::array<Identity, 4>> known;
    if (how == EMBED_CHECK_SIZE) return {};
    std::array<Identity, 4> files{};
    bool found = identify(bundle.directory + "/manifest.json", files[0]) &&
                 identify(bundle.model, files[1]) && identify(bundle.tokenizer, files[2]);
    if (std::string head = bundle.text("model", "head"); !head.empty())
        found = found && identify(bundle.directory + "/" + head, files[3]);
    std::lock_guard<std::mutex> held(mutex);
    bool checked = found && std::find(known.begin(), known.end(), files) != known.end();
    if (how == EMBED_CHECK_ONCE && checked) return {};
    embed::Error failure = bundle.check_data();
    if (!failure && found && !checked) known.push_back(files);
    return failure;
}

embed::EmbedOptions embedding_of(const embed_options *options) {
    if (!options) return {};
    return {options->batch_size,
            options->max_length,
            options->dimension,
            options->threads,
            false,
            false,
            false,
            options->prefix ? options->prefix : ""};
}

}  // namespace

extern "C" {

int embed_open(const char *directory, const embed_options *options, embed_bundle **bundle, char *error,
               size_t error_size) {
    auto made = std::make_unique<embed_bundle>();
    *bundle = nullptr;
    const char *asked = options ? options->public_key : nullptr;
    if (embed::LINKED && !directory) directory = embed::INSIDE;
    embed::Error failure;
    // The manifest of "" would be that of the root.
    if (!directory || !*directory) failure = embed::fail(embed::USAGE, "no folder is named");
    else if (asked && embed::LINKED && directory == embed::INSIDE)
        failure = embed::fail(embed::USAGE, "a bundle inside the program has no signature of its own: sign the program");
    else failure = made->bundle.open(directory);
    for (const char *key : {embed::REQUIRED_KEY, asked})
        if (!failure && key) failure = embed::check_signature(made->bundle, key);
    if (!failure && !asked && !embed::REQUIRED_KEY)
        failure = check(made->bundle, options ? options->check : EMBED_CHECK_CONTENT);
    auto open_scorer = embed::feature_with(&embed::Feature::open_scorer);
    if (!failure && open_scorer) failure = open_scorer(made->bundle, made->scorer);
    if (!failure) failure = made->embedder.open(made->bundle, embedding_of(options));
    if (options && options->prefix) made->prefix = options->prefix;
    if (!failure) *bundle = made.release();
    return embed::answer(failure, error, error_size);
}

size_t embed_dimension(const embed_bundle *bundle) { return bundle->embedder.dimension(); }

int embed_texts(const embed_bundle *bundle, const char *const *texts, const size_t *lengths, size_t count,
                float *vectors, char *error, size_t error_size) {
    std::vector<std::string> valid;
    if (embed::Error failure = embed::decode_all(texts, lengths, count, valid))
        return embed::answer(failure, error, error_size);
    std::vector<float> made;
    embed::Error failure = bundle->embedder.embed({valid.begin(), valid.end()}, made);
    if (!failure) std::copy(made.begin(), made.end(), vectors);
    return embed::answer(failure, error, error_size);
}

int embed_tokens(const embed_bundle *bundle, const char *text, const size_t *length, uint32_t *ids, size_t room,
                 size_t *count, char *error, size_t error_size) {
    std::vector<std::string> valid;
    embed::Encoding encoded;
    embed::Error failure = embed::decode_all(&text, length, 1, valid);
    if (!failure) failure = bundle->embedder.encode_prefixed(valid[0], encoded);
    if (failure) return embed::answer(failure, error, error_size);
    *count = encoded.ids.size();
    std::transform(encoded.ids.begin(), encoded.ids.begin() + ptrdiff_t(std::min(room, *count)), ids,
                   [](int64_t id) { return uint32_t(id); });
    return 0;
}

int embed_similarity(const embed_bundle *bundle, const char *const *texts, const size_t *lengths,
                     double *similarity, char *error, size_t error_size) {
    std::vector<std::string> valid;
    std::vector<float> vectors;
    embed::Error failure = embed::decode_all(texts, lengths, 2, valid);
    // Each alone: in a batch, one text could move the other's vector.
    for (const std::string &text : valid)
        if (!failure) failure = bundle->embedder.embed({text}, vectors);
    const size_t dimension = bundle->embedder.dimension();
    if (!failure) *similarity = embed::cosine(vectors.data(), vectors.data() + dimension, dimension);
    return embed::answer(failure, error, error_size);
}

int embed_outputs(const embed_bundle *bundle, const char *const *texts, const size_t *lengths, size_t count,
                  float *vectors, embed_rows *sparse, embed_rows *multi_vector, char *error,
                  size_t error_size) {
    auto outputs = embed::feature_with(&embed::Feature::library_outputs);
    std::vector<std::string> valid;
    embed::Error failure;
    if (!outputs)
        failure = embed::fail(embed::USAGE, bundle->bundle.text("model", "name") +
                                                " makes one vector of a text: embed_texts gives it");
    if (!failure) failure = embed::decode_all(texts, lengths, count, valid);
    if (!failure) failure = outputs(*bundle, valid, vectors, sparse, multi_vector);
    return embed::answer(failure, error, error_size);
}

void embed_free_rows(embed_rows *rows) {
    if (!rows) return;
    delete[] rows->offsets;
    delete[] rows->values;
    delete[] rows->ids;
    *rows = {};
}

void embed_close(embed_bundle *bundle) { delete bundle; }

}  // extern "C"
