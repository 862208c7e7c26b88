// A plan of a stranger's making: it is refused, or it computes texts of 1, 30 and 0 tokens, and one plan in eight a text of 130,
// which two threads share.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "encoder/encoder.h"
#include "kernels.h"
#include "plan.h"

namespace embed {

extern const Kernels base_kernels;
const Kernels &kernels_here() { return base_kernels; }

}  // namespace embed

int fuzz_plan(const uint8_t *data, size_t size) {
    using namespace embed;
    std::vector<uint8_t> plan(data, data + size);
    const uint64_t whole = plan.size();
    if (plan.size() >= sizeof(Header)) memcpy(&plan[8], &whole, 8);
    static const int file = memfd_create("plan", 0);
    static const std::string path = "/proc/self/fd/" + std::to_string(file);
    if (ftruncate(file, 0) || pwrite(file, plan.data(), plan.size(), 0) != ssize_t(plan.size())) abort();
    std::unique_ptr<Encoder> encoder;
    if (Error error = open_encoder("", path, 2, encoder)) return error.code == BUNDLE ? 0 : (abort(), 0);
    Header header;
    memcpy(&header, plan.data(), sizeof header);
    static size_t plans = 0;
    const bool long_too = plans++ % 8 == 0;
    for (size_t length : {0, 1, 30, 0, 130}) {
        if (length > 30 && !long_too) continue;
        Batch batch;
        batch.rows = 2, batch.length = length;
        for (size_t at = 0; at < 2 * length; at++) {
            batch.ids.push_back(int64_t(at * 7919 % 40)), batch.types.push_back(int64_t(at % 3));
            batch.mask.push_back(at < length + length / 2);
        }
        batch.sizes = {length, length};
        std::vector<float> vectors;
        TokenVectors tokens{header.given, {}};
        if (Error error = encoder->run(batch, header.dimension, vectors, &tokens)) {
            if (length > header.longest) continue;
            abort();
        }
        if (vectors.size() != 2 * size_t(header.dimension) || tokens.numbers.size() != 2 * length * header.given) abort();
    }
    if (getenv("SAY")) puts("computed");
    return 0;
}
