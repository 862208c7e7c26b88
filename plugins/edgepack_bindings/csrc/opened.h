/* A bundle opened by its own libembed: what the JNI library, Node's addon and the Go module have in common. With LIBEMBED_INSIDE they are
 * in libembed themselves. */
#pragma once

#ifndef LIBEMBED_INSIDE
#include <dlfcn.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "embed.h"

enum { MESSAGE = 1024, DAMAGED = 4, TOKENS = 512 };

/* An open bundle, and the functions of its library. */
typedef struct {
    embed_bundle *bundle;
    int (*open)(const char *, const embed_options *, embed_bundle **, char *, size_t);
    size_t (*dimension)(const embed_bundle *);
    int (*texts)(const embed_bundle *, const char *const *, const size_t *, size_t, float *, char *, size_t);
    int (*tokens)(const embed_bundle *, const char *, const size_t *, uint32_t *, size_t, size_t *, char *, size_t);
    int (*similarity)(const embed_bundle *, const char *const *, const size_t *, double *, char *, size_t);
    void (*close)(embed_bundle *);
} Opened;

#ifdef LIBEMBED_INSIDE
static inline const char *load(const char *path, Opened *opened) {
    (void)path;
    *opened = (Opened){NULL, embed_open, embed_dimension, embed_texts, embed_tokens, embed_similarity, embed_close};
    return NULL;
}
#else
/* What dlopen and dlsym say; NULL where all is there. */
static inline const char *load(const char *path, Opened *opened) {
    static const char *const names[] = {"embed_open", "embed_dimension", "embed_texts", "embed_tokens", "embed_similarity", "embed_close"};
    void **places[] = {(void **)&opened->open, (void **)&opened->dimension, (void **)&opened->texts,
                       (void **)&opened->tokens, (void **)&opened->similarity, (void **)&opened->close};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (size_t at = 0; library && at < sizeof names / sizeof *names; at++)
        if (!(*places[at] = dlsym(library, names[at]))) library = NULL;
    return library ? NULL : dlerror();
}
#endif

/* NULL, a code and a message where it does not open; numbers: batch size, maximum length, dimension, threads. */
static inline Opened *open_library(const char *path, const char *folder, const char *prefix, const char *key, const int64_t *numbers, int *code,
                                   char *message) {
    Opened *opened = calloc(1, sizeof *opened);
    const char *failure = opened && path && folder ? load(path, opened) : "out of memory";
    *code = failure ? DAMAGED : 0;
    if (failure) {
        snprintf(message, MESSAGE, "%s", failure);
    } else {
        embed_options options = {(size_t)numbers[0], (size_t)numbers[1], (size_t)numbers[2], (int)numbers[3], prefix, EMBED_CHECK_CONTENT, key};
        *code = opened->open(folder, &options, &opened->bundle, message, MESSAGE);
    }
    if (*code) free(opened);
    return *code ? NULL : opened;
}
