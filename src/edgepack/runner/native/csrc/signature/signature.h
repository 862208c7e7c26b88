// Whether a bundle is signed, whole.
#pragma once
#include <string>

#include "embedder/bundle.h"

namespace embed {

// The key that this program was built to ask for, in PEM; null: none.
extern const char *const BUILT_FOR;

// Everything in the folder of an open bundle is what was signed with this key (PEM). A code of 2 for what is no such key, of 4
// for what is not signed so.
Error check_signature(const Bundle &bundle, const std::string &key);

}  // namespace embed
