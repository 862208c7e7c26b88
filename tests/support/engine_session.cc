// The session by itself, as a library: a plan's file, texts of ids and types, vectors. Kernels are those of any processor, or given.
#include <cstdio>
#include <cstring>

#include "encoder/encoder.h"
#include "kernels.h"
#include "session.h"

namespace embed {

extern const Kernels base_kernels;
static const Kernels *given;
const Kernels &kernels_here() { return given ? *given : base_kernels; }

}  // namespace embed

// A level's, from another library; null: those of any processor.
extern "C" void choose(const embed::Kernels *kernels) { embed::given = kernels; }

// One text in parts, whose `ends` are behind their last tokens, with a vector each.
extern "C" int pool(const char *plan, int threads, size_t length, const int64_t *ids, const int64_t *types, size_t parts, const uint64_t *ends,
                    size_t dimension, float *vectors) {
    embed::Session session;
    embed::Batch batch;
    std::vector<float> made;
    batch.rows = 1, batch.length = length;
    batch.ids.assign(ids, ids + length), batch.mask.assign(length, 1), batch.types.assign(types, types + length);
    embed::Error error = session.open(plan, threads);
    if (!error) error = session.run(batch, dimension, made, nullptr, {std::vector<size_t>(ends, ends + parts)});
    memcpy(vectors, made.data(), made.size() * sizeof(float));
    return error.code;
}

// `ids`, `mask` and `types` are [rows, length], `vectors` [rows, dimension]. The session computes so many times, a share of the rows first and at
// last all of them. Where texts' `sizes` are given, what tokens have is written to `given`, [rows, length, width]. The error's code; its message is
// written to standard error.
extern "C" int compute(const char *plan, int threads, int times, size_t rows, size_t length, const int64_t *ids, const int64_t *mask, const int64_t *types,
                       size_t dimension, float *vectors, const uint64_t *sizes, size_t width, float *given) {
    std::unique_ptr<embed::Encoder> encoder;
    embed::Error error = embed::open_encoder("", plan, threads, encoder);
    std::vector<float> made;
    embed::TokenVectors tokens;
    for (int time = 1; time <= times && !error; time++) {
        embed::Batch batch;
        batch.rows = rows * size_t(time) / size_t(times), batch.length = length;
        const size_t count = batch.rows * length;
        batch.ids.assign(ids, ids + count), batch.mask.assign(mask, mask + count), batch.types.assign(types, types + count);
        if (sizes) batch.sizes.assign(sizes, sizes + batch.rows);
        made.clear();
        tokens = {sizes ? width : 0, {}};
        error = encoder->run(batch, dimension, made, &tokens);
    }
    if (error) {
        fprintf(stderr, "%s\n", error.message.c_str());
        return error.code;
    }
    memcpy(vectors, made.data(), made.size() * sizeof(float));
    if (sizes) memcpy(given, tokens.numbers.data(), tokens.numbers.size() * sizeof(float));
    return 0;
}
