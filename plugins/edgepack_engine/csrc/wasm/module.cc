// The engine as a WebAssembly module that imports nothing. A host writes a plan and then, for each batch, tokens into its memory, and
// reads vectors from there. One thread at a time.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "encoder/encoder.h"
#include "plan.h"
#include "sound.h"
#include "wasm/system.h"

#define EXPORT(name) extern "C" __attribute__((export_name(#name), visibility("default")))

namespace {

// Made when it is first asked for: nothing of the module runs before.
struct Module {
    std::unique_ptr<embed::Encoder> encoder;
    embed::Header header{};
    std::string message;
    size_t texts = 0, count = 0;  // of the next batch, and their tokens
    std::vector<uint32_t> tokens;
    std::vector<float> vectors;
};

Module &module() {
    static Module *made = new Module;
    return *made;
}

bool said(const embed::Error &error) {
    module().message = error.message;
    return bool(error);
}

}  // namespace

// Memory for a plan of so many bytes, which stays the host's to fill until `open`; 0: there is not as much.
EXPORT(reserve) void *reserve(size_t size) {
    embed::lent = {static_cast<const uint8_t *>(aligned_alloc(embed::ALIGNMENT, (size + embed::ALIGNMENT - 1) / embed::ALIGNMENT * embed::ALIGNMENT)), size};
    return const_cast<uint8_t *>(embed::lent.data);
}

// 1 where the plan is sound; else 0, and `message` says why.
EXPORT(open) int open_plan() {
    if (said(embed::open_encoder("", "the plan", 1, module().encoder))) return 0;
    memcpy(&module().header, embed::lent.data, sizeof(embed::Header));
    return 1;
}

// What went wrong last, as UTF-8 that ends with a 0.
EXPORT(message) const char *message() { return module().message.c_str(); }

// Numbers of a vector, and the most tokens of a text.
EXPORT(dimension) uint32_t dimension() { return module().header.dimension; }
EXPORT(longest) uint32_t longest() { return module().header.longest; }

// Memory for the next batch, 32 bits each: how many tokens each text has, then all ids, then all types.
EXPORT(batch) uint32_t *next_batch(size_t texts, size_t tokens) {
    Module &mine = module();
    if (texts + 2 * uint64_t(tokens) > SIZE_MAX / sizeof(uint32_t)) abort();
    mine.texts = texts, mine.count = tokens;
    mine.tokens.assign(texts + 2 * tokens, 0);
    return mine.tokens.data();
}

// The batch's vectors, float32 [texts, dimension], there until the next is embedded; 0: `message` says why.
EXPORT(embed) const float *embed_batch() {
    Module &mine = module();
    const uint32_t *lengths = mine.tokens.data(), *ids = lengths + mine.texts, *types = ids + mine.count;
    embed::Batch batch;
    batch.rows = mine.texts;
    uint64_t counted = 0;
    for (size_t row = 0; row < batch.rows; row++) {
        batch.length = std::max<size_t>(batch.length, lengths[row]);
        counted += lengths[row];
    }
    if (!mine.encoder || counted != mine.count)
        return said(embed::fail(embed::USAGE, "no plan is open, or the texts have not as many tokens as was said")), nullptr;
    if (uint64_t(batch.rows) * batch.length > SIZE_MAX / (4 * sizeof(int64_t)))
        return said(embed::fail(embed::USAGE, "texts of so many tokens at once take more memory than there can be")), nullptr;
    const size_t places = batch.rows * batch.length;
    batch.ids.assign(places, 0), batch.mask.assign(places, 0), batch.types.assign(places, 0);
    for (size_t row = 0; row < batch.rows; row++)
        for (size_t at = row * batch.length, end = at + lengths[row]; at < end; at++)
            batch.ids[at] = *ids++, batch.types[at] = *types++, batch.mask[at] = 1;
    mine.vectors.clear();
    if (said(mine.encoder->run(batch, mine.header.dimension, mine.vectors, nullptr))) return nullptr;
    return mine.vectors.data();
}
