/* The addon of a native package: opens and calls the libembed of its bundle. Vectors are made by Node's own threads. */
#include "napi.h"

#include "opened.h"

#include <stdlib.h>
#include <string.h>

/* What a thread does; without vectors, it is the similarity of two texts. */
typedef struct {
    const Opened *opened;
    uint32_t count;
    char **texts;
    size_t *lengths;
    float *vectors;
    double similarity;
    int code;
    char message[MESSAGE];
    napi_deferred deferred;
    napi_async_work work;
} Task;

static napi_value error_of(napi_env env, int code, const char *message) {
    napi_value text, made = NULL, number;
    napi_create_string_utf8(env, message, strlen(message), &text);
    napi_create_error(env, NULL, text, &made);
    napi_create_double(env, code, &number);
    napi_set_named_property(env, made, "code", number);
    return made;
}

static napi_value refuse(napi_env env, int code, const char *message) {
    napi_throw(env, error_of(env, code, message));
    return NULL;
}

/* NULL for what is no text. */
static char *text_of(napi_env env, napi_value value, size_t *length) {
    char *made = NULL;
    if (napi_get_value_string_utf8(env, value, NULL, 0, length) || !(made = malloc(*length + 1))) return NULL;
    napi_get_value_string_utf8(env, value, made, *length + 1, length);
    return made;
}

/* open(library, folder, prefix, publicKey, batchSize, maxLength, dimension, threads) */
static napi_value open_bundle(napi_env env, napi_callback_info info) {
    napi_value words[8], made = NULL;
    size_t count = 8, length;
    char *texts[4], message[MESSAGE];
    int64_t numbers[4] = {0};
    const char *wrong = NULL;
    napi_get_cb_info(env, info, &count, words, NULL, NULL);
    for (int at = 0; at < 4; at++) {
        int type = UNDEFINED;
        napi_typeof(env, words[at], &type);
        texts[at] = text_of(env, words[at], &length);
        // A key that is no text is not "no key".
        if (!texts[at] && type != UNDEFINED) wrong = type == STRING ? "out of memory" : "what a bundle is opened with is no text";
        else if (texts[at] && strlen(texts[at]) != length) wrong = "what a bundle is opened with has a NUL";
        napi_get_value_int64(env, words[at + 4], &numbers[at]);
    }
    int code = 2;
    Opened *opened = wrong ? NULL : open_library(texts[0], texts[1], texts[2], texts[3], numbers, &code, message);
    if (code)
        refuse(env, code, wrong ? wrong : message);
    else
        napi_create_external(env, opened, NULL, NULL, &made);
    for (int at = 0; at < 4; at++) free(texts[at]);
    return made;
}

static Opened *opened_of(napi_env env, napi_value value) {
    void *found = NULL;
    napi_get_value_external(env, value, &found);
    return found;
}

static void free_task(napi_env env, Task *task) {
    for (uint32_t at = 0; task->texts && at < task->count; at++) free(task->texts[at]);
    free(task->texts);
    free(task->lengths);
    free(task->vectors);
    if (task->work) napi_delete_async_work(env, task->work);
    free(task);
}

static void execute(napi_env env, void *data) {
    (void)env;
    Task *task = data;
    const char *const *texts = (const char *const *)task->texts;
    const embed_bundle *bundle = task->opened->bundle;
    if (task->vectors)
        task->code = task->opened->texts(bundle, texts, task->lengths, task->count, task->vectors, task->message, MESSAGE);
    else
        task->code = task->opened->similarity(bundle, texts, task->lengths, &task->similarity, task->message, MESSAGE);
}

static void complete(napi_env env, napi_status status, void *data) {
    Task *task = data;
    napi_value made = NULL, buffer;
    const size_t numbers = task->vectors ? task->count * task->opened->dimension(task->opened->bundle) : 0;
    void *bytes;
    if (status || task->code) {
        napi_reject_deferred(env, task->deferred, error_of(env, status ? 1 : task->code, status ? "the process ends" : task->message));
    } else if (!task->vectors) {
        napi_create_double(env, task->similarity, &made);
        napi_resolve_deferred(env, task->deferred, made);
    } else if (!napi_create_arraybuffer(env, numbers * sizeof(float), &bytes, &buffer)) {  // else a worker ends, and nobody waits
        memcpy(bytes, task->vectors, numbers * sizeof(float));
        napi_create_typedarray(env, FLOAT32_ARRAY, numbers, buffer, 0, &made);
        napi_resolve_deferred(env, task->deferred, made);
    }
    free_task(env, task);
}

/* start(bundle, texts): a promise of all vectors' numbers; data is not NULL: of the similarity of two texts. */
static napi_value start(napi_env env, napi_callback_info info) {
    napi_value words[2], each, name, promise = NULL;
    size_t count = 2;
    void *similarity;
    napi_get_cb_info(env, info, &count, words, NULL, &similarity);
    Task *task = calloc(1, sizeof *task);
    if (!task) return refuse(env, 1, "out of memory");
    task->opened = opened_of(env, words[0]);
    napi_get_array_length(env, words[1], &task->count);
    task->texts = calloc(task->count + (size_t)1, sizeof *task->texts);
    task->lengths = calloc(task->count + (size_t)1, sizeof *task->lengths);
    if (!similarity) task->vectors = calloc(task->count + (size_t)1, task->opened->dimension(task->opened->bundle) * sizeof(float));
    bool whole = task->texts && task->lengths && (similarity || task->vectors);
    for (uint32_t at = 0; whole && at < task->count; at++) {
        napi_get_element(env, words[1], at, &each);
        whole = (task->texts[at] = text_of(env, each, &task->lengths[at])) != NULL;
    }
    if (!whole) {
        free_task(env, task);
        return refuse(env, 1, "out of memory");
    }
    napi_create_promise(env, &task->deferred, &promise);
    napi_create_string_utf8(env, "embed", 5, &name);
    napi_create_async_work(env, NULL, name, execute, complete, task, &task->work);
    napi_queue_async_work(env, task->work);
    return promise;
}

static napi_value tokens(napi_env env, napi_callback_info info) {
    napi_value words[2], buffer, made = NULL;
    size_t given = 2, length = 0, count = TOKENS, room = 0;
    char message[MESSAGE] = "";
    uint32_t *ids = NULL;
    void *bytes;
    napi_get_cb_info(env, info, &given, words, NULL, NULL);
    const Opened *opened = opened_of(env, words[0]);
    char *text = text_of(env, words[1], &length);
    int code = text ? 0 : 1;
    while (!code && count > room) {
        uint32_t *more = realloc(ids, count * sizeof *ids);
        if (!more) code = 1;
        else ids = more, room = count, code = opened->tokens(opened->bundle, text, &length, ids, room, &count, message, MESSAGE);
    }
    if (code) {
        refuse(env, code, *message ? message : "out of memory");
    } else if (!napi_create_arraybuffer(env, count * sizeof *ids, &bytes, &buffer)) {
        memcpy(bytes, ids, count * sizeof *ids);
        napi_create_typedarray(env, UINT32_ARRAY, count, buffer, 0, &made);
    }
    free(text);
    free(ids);
    return made;
}

static napi_value dimension(napi_env env, napi_callback_info info) {
    napi_value words[1], made;
    size_t count = 1;
    napi_get_cb_info(env, info, &count, words, NULL, NULL);
    const Opened *opened = opened_of(env, words[0]);
    if (!opened) return refuse(env, 2, "a bundle is opened by Bundle.open");
    napi_create_double(env, (double)opened->dimension(opened->bundle), &made);
    return made;
}

static napi_value close_bundle(napi_env env, napi_callback_info info) {
    napi_value words[1];
    size_t count = 1;
    napi_get_cb_info(env, info, &count, words, NULL, NULL);
    Opened *opened = opened_of(env, words[0]);
    opened->close(opened->bundle);
    free(opened);
    return NULL;
}

__attribute__((visibility("default"))) int32_t node_api_module_get_api_version_v1(void) { return 8; }

__attribute__((visibility("default"))) napi_value napi_register_module_v1(napi_env env, napi_value exports) {
    static const struct {
        const char *name;
        napi_callback call;
        void *data;
    } functions[] = {{"open", open_bundle, NULL}, {"dimension", dimension, NULL}, {"embed", start, NULL},
                     {"tokens", tokens, NULL},    {"close", close_bundle, NULL},  {"similarity", start, (void *)"similarity"}};
    for (size_t at = 0; at < sizeof functions / sizeof *functions; at++) {
        napi_value made;
        napi_create_function(env, functions[at].name, strlen(functions[at].name), functions[at].call, functions[at].data, &made);
        napi_set_named_property(env, exports, functions[at].name, made);
    }
    return exports;
}
