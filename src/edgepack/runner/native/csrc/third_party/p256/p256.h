// ECDSA on the curve P-256, verified.
#pragma once
#include <cstddef>
#include <cstdint>

// 0 for a signature (r and s, big-endian) of this digest by the owner of the key (x and y, big-endian), which has to be a point of
// the curve.
int p256_ecdsa_verify(const uint8_t sig[64], const uint8_t pub[64], const uint8_t *hash, size_t hlen);
