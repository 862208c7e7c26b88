#include "base/sha256.h"

#include <algorithm>
#include <cstring>

namespace embed {

namespace {

constexpr uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t turn(uint32_t word, int by) { return word >> by | word << (32 - by); }

}  // namespace

void Sha256::block(const uint8_t *data) {
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = uint32_t(data[4 * i]) << 24 | uint32_t(data[4 * i + 1]) << 16 |
               uint32_t(data[4 * i + 2]) << 8 | data[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state_[0], b = state_[1], c = state_[2], d = state_[3], e = state_[4], f = state_[5],
             g = state_[6], h = state_[7];
    for (int i = 0; i < 64; i++) {
        uint32_t t1 = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i];
        uint32_t t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t next[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++) state_[i] += next[i];
}

void Sha256::update(const uint8_t *data, size_t size) {
    length_ += size;
    while (size) {
        if (kept_ == 0 && size >= 64) {
            block(data);
            data += 64, size -= 64;
            continue;
        }
        size_t taken = std::min(size, 64 - kept_);
        memcpy(rest_ + kept_, data, taken);
        kept_ += taken, data += taken, size -= taken;
        if (kept_ == 64) block(rest_), kept_ = 0;
    }
}

std::string Sha256::finish() {
    uint64_t bits = length_ * 8;
    uint8_t end[72] = {0x80};
    size_t padding = (kept_ < 56 ? 56 : 120) - kept_;
    for (int i = 0; i < 8; i++) end[padding + size_t(i)] = uint8_t(bits >> (56 - 8 * i));
    update(end, padding + 8);
    std::string text;
    for (uint32_t word : state_)
        for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15];
    return text;
}

}  // namespace embed
