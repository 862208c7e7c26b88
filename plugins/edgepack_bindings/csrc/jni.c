/* edgepack.Bundle's native methods: each opens and calls the libembed of its bundle. */
#include "jni.h"

#include "opened.h"

#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

/* Bytes of Java's, and where each text begins. */
typedef struct {
    char *bytes;
    const char **starts;
    size_t *lengths;
} Texts;

static void throw_error(Env env, int code, const char *message) {
    Object class = CALL(env, FIND_CLASS, Object, Env, const char *)(env, "edgepack/EmbedException");
    if (!class) return;
    Object init = CALL(env, GET_METHOD_ID, Object, Env, Object, const char *, const char *)(env, class, "<init>", "(I[B)V");
    Object text = new_bytes(env, (int32_t)strlen(message), message);
    if (!init || !text) return;
    Object made = CALL(env, NEW_OBJECT, Object, Env, Object, Object, ...)(env, class, init, code, text);
    if (made) CALL(env, THROW, int32_t, Env, Object)(env, made);
}

static void out_of_memory(Env env) { throw_error(env, 1, "out of memory"); }

/* A text that ends with a NUL; NULL for Java's null. */
static char *copied(Env env, Object array) {
    int32_t length = array ? length_of(env, array) : 0;
    char *made = array ? malloc((size_t)length + 1) : NULL;
    if (!made) return NULL;
    get_bytes(env, array, length, made);
    made[length] = 0;
    return made;
}

static void free_texts(Texts *texts) {
    free(texts->bytes);
    free(texts->starts);
    free(texts->lengths);
}

/* 0 where there is no memory. */
static int take_texts(Env env, Object array, int32_t count, Texts *texts) {
    size_t size = 1, at = 0;
    *texts = (Texts){NULL, malloc(((size_t)count + 1) * sizeof *texts->starts), malloc(((size_t)count + 1) * sizeof *texts->lengths)};
    for (int32_t index = 0; texts->lengths && index < count; index++) {
        Object each = element_of(env, array, index);
        size += texts->lengths[index] = (size_t)length_of(env, each);
        drop(env, each);
    }
    texts->bytes = malloc(size);
    if (!texts->bytes || !texts->starts || !texts->lengths) return 0;
    for (int32_t index = 0; index < count; index++) {
        Object each = element_of(env, array, index);
        get_bytes(env, each, (int32_t)texts->lengths[index], texts->bytes + at);
        texts->starts[index] = texts->bytes + at;
        at += texts->lengths[index];
        drop(env, each);
    }
    return 1;
}

EXPORTED int64_t Java_edgepack_Bundle_open(Env env, Object class, Object library, Object folder, Object numbers, Object prefix, Object key) {
    (void)class;
    int64_t asked[4];
    char message[MESSAGE], *path = copied(env, library), *place = copied(env, folder), *side = copied(env, prefix), *pem = copied(env, key);
    get_longs(env, numbers, 4, asked);
    int code;
    // A key that there was no memory for is not "no key".
    if ((prefix && !side) || (key && !pem)) free(path), path = NULL;
    Opened *opened = open_library(path, place, side, pem, asked, &code, message);
    if (code) throw_error(env, code, message);
    free(path), free(place), free(side), free(pem);
    return (int64_t)(intptr_t)opened;
}

EXPORTED int32_t Java_edgepack_Bundle_dimensionOf(Env env, Object class, int64_t handle) {
    (void)env, (void)class;
    const Opened *opened = (const Opened *)(intptr_t)handle;
    return (int32_t)opened->dimension(opened->bundle);
}

EXPORTED void Java_edgepack_Bundle_embed(Env env, Object class, int64_t handle, Object array, Object rows) {
    (void)class;
    const Opened *opened = (const Opened *)(intptr_t)handle;
    const int32_t count = length_of(env, array), dimension = (int32_t)opened->dimension(opened->bundle);
    char message[MESSAGE] = "";
    Texts texts;
    float *vectors = malloc(((size_t)count * (size_t)dimension + 1) * sizeof *vectors);
    if (!take_texts(env, array, count, &texts) || !vectors) {
        out_of_memory(env);
    } else {
        int code = opened->texts(opened->bundle, texts.starts, texts.lengths, (size_t)count, vectors, message, sizeof message);
        if (code) throw_error(env, code, message);
        for (int32_t row = 0; !code && row < count; row++) {
            Object each = element_of(env, rows, row);
            set_floats(env, each, dimension, vectors + (size_t)row * (size_t)dimension);
            drop(env, each);
        }
    }
    free_texts(&texts);
    free(vectors);
}

EXPORTED Object Java_edgepack_Bundle_tokens(Env env, Object class, int64_t handle, Object array) {
    (void)class;
    const Opened *opened = (const Opened *)(intptr_t)handle;
    const size_t length = (size_t)length_of(env, array);
    char message[MESSAGE] = "", *text = copied(env, array);
    uint32_t *ids = NULL;
    Object made = NULL;
    for (size_t count = TOKENS, room = 0; text && count > room;) {
        uint32_t *more = realloc(ids, count * sizeof *ids);
        if (!more) break;
        ids = more, room = count;
        int code = opened->tokens(opened->bundle, text, &length, ids, room, &count, message, sizeof message);
        if (code) {
            throw_error(env, code, message);
            break;
        }
        if (count <= room) made = new_ints(env, (int32_t)count, ids);
    }
    if (!text || !ids) out_of_memory(env);
    free(text);
    free(ids);
    return made;
}

EXPORTED double Java_edgepack_Bundle_similarity(Env env, Object class, int64_t handle, Object array) {
    (void)class;
    const Opened *opened = (const Opened *)(intptr_t)handle;
    char message[MESSAGE] = "";
    double made = 0;
    Texts texts;
    if (take_texts(env, array, 2, &texts)) {
        int code = opened->similarity(opened->bundle, texts.starts, texts.lengths, &made, message, sizeof message);
        if (code) throw_error(env, code, message);
    } else {
        out_of_memory(env);
    }
    free_texts(&texts);
    return made;
}

EXPORTED void Java_edgepack_Bundle_close(Env env, Object class, int64_t handle) {
    (void)env, (void)class;
    Opened *opened = (Opened *)(intptr_t)handle;
    opened->close(opened->bundle);
    free(opened);
}
