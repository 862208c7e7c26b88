// The check of signatures as a library of its own, for the program in Python.
#include <cstdio>

#include "signature/statement.h"

extern "C" {

// Whether the content of a signature's file signs, with this key (PEM), a manifest of this SHA-256 (hexadecimal). A code of 2 for
// what is no such key, of 4 for what is not signed so, which `error` then says.
__attribute__((visibility("default"))) int signature_check(const char *content, size_t size, const char *key, const char *manifest,
                                                           char *error, size_t room) {
    embed::Json statement;
    embed::Error failure = embed::open_signature(std::string(content, size), key, statement);
    if (!failure) failure = embed::check_manifest(manifest, statement);
    if (failure) snprintf(error, room, "%s", failure.message.c_str());
    return failure.code;
}

}  // extern "C"
