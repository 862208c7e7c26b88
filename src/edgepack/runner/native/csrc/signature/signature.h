// Whether a bundle is signed: by model-signing's statement in a DSSE envelope, in a Sigstore bundle; the key is ECDSA P-256.
#pragma once
#include <string>

#include "embedder/bundle.h"

namespace embed {

// The key that this program was built to ask for, in PEM; null: none.
extern const char *const BUILT_FOR;

// Everything in the folder of an open bundle is what was signed with this key (PEM). A code of 2 for what is no such key, of 4
// for what is not signed so.
Error check_signature(const Bundle &bundle, const std::string &key);

// What check_signature begins with, for whoever tries bad ones: the digests that a signature's file (its content) signs with a
// key, as the statement's JSON.
Error open_signature(const std::string &content, const std::string &key, Json &statement);

}  // namespace embed
