// What is done for every number of an index.
#include <cstring>

#include "search/index.h"

namespace embed {

uint32_t adler32(std::string_view bytes, uint32_t start) {
    uint32_t a = start & 0xFFFF, b = start >> 16;
    while (!bytes.empty()) {
        // So many that the sums stay below 2^32.
        std::string_view part = bytes.substr(0, 5552);
        for (char byte : part) a += uint8_t(byte), b += a;
        a %= 65521, b %= 65521;
        bytes.remove_prefix(part.size());
    }
    return b << 16 | a;
}

// Sixteen products at a time: a compiler may not reorder the sum of floats by itself.
float dot(const float *first, const float *second, size_t size) {
    typedef float Four __attribute__((vector_size(16)));
    Four sums[4] = {}, one[4], other[4];
    size_t at = 0;
    for (; at + 16 <= size; at += 16) {
        memcpy(one, first + at, sizeof one);
        memcpy(other, second + at, sizeof other);
        sums[0] += one[0] * other[0], sums[1] += one[1] * other[1], sums[2] += one[2] * other[2],
            sums[3] += one[3] * other[3];
    }
    Four together = sums[0] + sums[1] + sums[2] + sums[3];
    float sum = together[0] + together[1] + together[2] + together[3];
    for (; at < size; at++) sum += first[at] * second[at];
    return sum;
}

}  // namespace embed
