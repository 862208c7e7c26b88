/* Loads a bundle's libembed and writes the vectors of texts: LIBRARY BUNDLE any|android TEXT... With `android`, the library makes system calls alone
 * that Android allows apps. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "android_calls.h"
#include "embed.h"

static void *library;

static void *function(const char *name) {
    void *found = dlsym(library, name);
    if (!found) puts(dlerror()), exit(1);
    return found;
}

static int refuse(const char *why) { return fprintf(stderr, "%s\n", why), 1; }

int main(int count, char **words) {
    library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return refuse(dlerror());
    __typeof__(&embed_open) open = (__typeof__(open))function("embed_open");
    __typeof__(&embed_texts) texts = (__typeof__(texts))function("embed_texts");
    __typeof__(&embed_dimension) dimension = (__typeof__(dimension))function("embed_dimension");
    __typeof__(&embed_close) close = (__typeof__(close))function("embed_close");
    if (!strcmp(words[3], "android") && allow_only_what_android_allows()) return refuse("no filter");
    const embed_options options = {.threads = 3};
    embed_bundle *bundle = NULL;
    char error[256];
    if (open(words[2], &options, &bundle, error, sizeof error)) return refuse(error);
    const size_t rows = (size_t)count - 4, width = dimension(bundle);
    float *vectors = malloc(rows * width * sizeof *vectors);
    if (texts(bundle, (const char *const *)words + 4, NULL, rows, vectors, error, sizeof error)) return refuse(error);
    close(bundle);
    return fwrite(vectors, sizeof *vectors, rows * width, stdout) != rows * width;
}
