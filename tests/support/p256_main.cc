// Lines of a key's point, a signature and a digest, hexadecimal, in; `right` or `wrong` out.
#include <iostream>
#include <string>
#include <vector>

#include "third_party/p256/p256.h"

static std::vector<uint8_t> bytes(const std::string &hex) {
    std::vector<uint8_t> made;
    for (size_t at = 0; at + 1 < hex.size(); at += 2) made.push_back(uint8_t(std::stoi(hex.substr(at, 2), nullptr, 16)));
    return made;
}

int main() {
    std::string point, signature, digest;
    while (std::cin >> point >> signature >> digest) {
        auto hash = bytes(digest);
        std::cout << (p256_ecdsa_verify(bytes(signature).data(), bytes(point).data(), hash.data(), hash.size()) ? "wrong" : "right") << "\n";
    }
}
