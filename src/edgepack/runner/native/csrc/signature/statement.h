// What a signature's file says: model-signing's statement in a DSSE envelope, in a Sigstore bundle; the key
// is ECDSA P-256.
#pragma once
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace embed {

// What the file is called in a bundle's folder, and the bytes that it may have.
constexpr const char *SIGNATURE = "signature.sigstore.json";
constexpr size_t MOST_OF_SIGNATURE = 16 << 20;

// A code of 4.
Error not_signed(const std::string &why);

// The digests that a signature's file (its content) signs with a key (PEM), as the statement's JSON. A code
// of 2 for what is no such key, of 4 for what is not signed so.
Error open_signature(const std::string &content, const std::string &key, Json &statement);

// A manifest of this SHA-256 is what the statement names.
Error check_manifest(const std::string &digest, const Json &statement);

}  // namespace embed
