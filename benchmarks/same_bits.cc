// A plan and texts of ids in, vectors out: the engine by itself, for one level of the processor. `same_bits PLAN IDS LEVEL BATCH THREADS`;
// IDS has a text of ids a line. Writes float32 [texts, dimension].
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "session.h"

namespace embed {

#if defined(__x86_64__)
extern const Kernels avx512_kernels, avxvnni_kernels, avx2_kernels, sse41_kernels;
#elif defined(__aarch64__)
extern const Kernels dotprod_kernels, i8mm_kernels;
#endif
extern const Kernels base_kernels;
static std::string level;

const Kernels &kernels_here() {
#if defined(__x86_64__)
    if (level == "avx512") return avx512_kernels;
    if (level == "avxvnni") return avxvnni_kernels;
    if (level == "avx2") return avx2_kernels;
    if (level == "sse41") return sse41_kernels;
#elif defined(__aarch64__)
    if (level == "dotprod") return dotprod_kernels;
    if (level == "i8mm") return i8mm_kernels;
#endif
    return base_kernels;
}

}  // namespace embed

int main(int count, char **words) {
    using namespace embed;
    if (count != 6) return 2;
    level = words[3];
    Session session;
    if (Error error = session.open(words[1], atoi(words[5]))) return fprintf(stderr, "%s\n", error.message.c_str()), 1;
    Header header;
    std::ifstream(words[1]).read(reinterpret_cast<char *>(&header), sizeof header);
    std::vector<std::vector<int64_t>> texts;
    std::ifstream in(words[2]);
    for (std::string line; std::getline(in, line);) {
        texts.emplace_back();
        for (char *at = &line[0], *end;; at = end) {
            const long id = strtol(at, &end, 10);
            if (end == at) break;
            texts.back().push_back(id);
        }
    }
    const size_t together = size_t(atoi(words[4]));
    std::vector<float> made;
    for (size_t first = 0; first < texts.size(); first += together) {
        Batch batch;
        batch.rows = std::min(together, texts.size() - first);
        for (size_t row = 0; row < batch.rows; row++) batch.length = std::max(batch.length, texts[first + row].size());
        for (size_t row = 0; row < batch.rows; row++)
            for (size_t at = 0; at < batch.length; at++) {
                const bool there = at < texts[first + row].size();
                batch.ids.push_back(there ? texts[first + row][at] : 0), batch.mask.push_back(there), batch.types.push_back(0);
            }
        if (Error error = session.run(batch, header.dimension, made, nullptr)) return fprintf(stderr, "%s\n", error.message.c_str()), 1;
    }
    fwrite(made.data(), sizeof(float), made.size(), stdout);
}
