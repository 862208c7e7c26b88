// The session by itself, with the kernels of any processor, as a library: a plan's file, texts of ids and types, vectors.
#include <cstdio>
#include <cstring>

#include "session.h"

namespace embed {

extern const Kernels base_kernels;
const Kernels &kernels_here() { return base_kernels; }

}  // namespace embed

// `ids`, `mask` and `types` are [rows, length], `vectors` [rows, dimension]. The error's code; its message is written to standard error.
extern "C" int compute(const char *plan, int threads, int times, size_t rows, size_t length, const int64_t *ids, const int64_t *mask, const int64_t *types,
                       size_t dimension, float *vectors) {
    embed::Session session;
    embed::Batch batch;
    batch.rows = rows, batch.length = length;
    batch.ids.assign(ids, ids + rows * length), batch.mask.assign(mask, mask + rows * length), batch.types.assign(types, types + rows * length);
    embed::Error error = session.open("", plan, threads);
    std::vector<float> made;
    for (int time = 0; time < times && !error; time++) {
        made.clear();
        error = session.run(batch, dimension, made);
    }
    if (error) {
        fprintf(stderr, "%s\n", error.message.c_str());
        return error.code;
    }
    memcpy(vectors, made.data(), made.size() * sizeof(float));
    return 0;
}
