// Long texts in chunks.
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "chunks/chunks.h"
#include "libembed/opened.h"

namespace embed {

namespace {

Error in_chunks(const embed_bundle &bundle, const std::vector<std::string_view> &texts,
                const ChunkOptions &options, embed_chunked &given) {
    std::vector<Chunk> chunks;
    std::vector<float> vectors;
    std::string valid;
    for (size_t at = 0; at < texts.size(); at++)
        if (Error error = decode(texts[at], "text " + std::to_string(at + 1), true, valid)) return error;
    if (Error error = options.late ? check_late(bundle.bundle) : Error{}) return error;
    if (Error error = bundle.embedder.embed_chunks(texts, options, chunks, vectors)) return error;
    given.texts = texts.size();
    given.offsets = new size_t[texts.size() + 1]();
    given.starts = new size_t[chunks.size()];
    given.ends = new size_t[chunks.size()];
    given.vectors = new float[vectors.size()];
    for (size_t at = 0; at < chunks.size(); at++) {
        given.starts[at] = chunks[at].start;
        given.ends[at] = chunks[at].end;
        given.offsets[chunks[at].text + 1]++;
    }
    for (size_t at = 0; at < texts.size(); at++) given.offsets[at + 1] += given.offsets[at];
    std::copy(vectors.begin(), vectors.end(), given.vectors);
    return {};
}

}  // namespace

}  // namespace embed

extern "C" {

int embed_chunks(const embed_bundle *bundle, const char *const *texts, const size_t *lengths, size_t count,
                 size_t tokens, int late, embed_chunked *chunks, char *error, size_t error_size) {
    std::vector<std::string_view> given;
    for (size_t at = 0; at < count; at++)
        given.emplace_back(texts[at], lengths ? lengths[at] : strlen(texts[at]));
    return embed::answer(embed::in_chunks(*bundle, given, {tokens, late != 0}, *chunks), error, error_size);
}

void embed_free_chunks(embed_chunked *chunks) {
    if (!chunks) return;
    delete[] chunks->offsets;
    delete[] chunks->starts;
    delete[] chunks->ends;
    delete[] chunks->vectors;
    *chunks = {};
}

}  // extern "C"
