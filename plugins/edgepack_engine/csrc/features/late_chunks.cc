// Late chunks: what `embed --late` asks of the session.
#include "features/feature.h"
#include "session.h"

namespace embed {

namespace {

Error pool_chunks(const Encoder &encoder, const Batch &batch, const std::vector<std::vector<size_t>> &ends, size_t dimension,
                  std::vector<float> &vectors) {
    return static_cast<const Session &>(encoder).run(batch, dimension, vectors, nullptr, ends);
}

}  // namespace

extern const Feature POOLING_FEATURE = [] {
    Feature feature;
    feature.name = "pooling";
    feature.pool_chunks = pool_chunks;
    return feature;
}();

}  // namespace embed
