// ONNX Runtime's C API without ONNX Runtime, version 24: a session on a GPU that gives every text the vector (1, 0, 0, …) and writes what it was
// asked for into the file FAKE_ORT_RECORD. FAKE_ORT_FAIL_SESSION and FAKE_ORT_FAIL_RUN are what it says when it fails, FAKE_ORT_NODES which
// provider has the nodes.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 420

static void note(const char *form, ...) {
  const char *path = getenv("FAKE_ORT_RECORD");
  FILE *file = path ? fopen(path, "a") : NULL;
  va_list words;
  if (!file) return;
  va_start(words, form);
  vfprintf(file, form, words);
  va_end(words);
  fclose(file);
}

static size_t dimension(void) { return (size_t)atoi(getenv("FAKE_ORT_DIMENSION")); }
static const char *nodes_of(void) { return getenv("FAKE_ORT_NODES") ? getenv("FAKE_ORT_NODES") : "CUDAExecutionProvider"; }
static char cache[4096];

// A status is its message.
static void *failed(const char *variable) { return getenv(variable); }

struct value { int64_t shape[2]; float *numbers; };

static const char *message(const void *status) { return status; }
static void nothing(void *any) { (void)any; }
static void *create_env(int level, const char *name, void **env) { (void)level; (void)name; *env = cache; return NULL; }
static void *create_one(void **place) { *place = cache; return NULL; }
static void *set_number(void *options, int number) { (void)options; (void)number; return NULL; }
static void *set_level(void *options, int level) { (void)options; note("optimization %d\n", level); return NULL; }
static void *disable(void *options) { (void)options; note("no memory pattern\n"); return NULL; }
static void *add_entry(void *options, const char *key, const char *value) { (void)options; note("entry %s=%s\n", key, value); return NULL; }
static void *memory_info(int a, int b, void **info) { (void)a; (void)b; *info = cache; return NULL; }
static void *update(void *options, const char *const *keys, const char *const *values, size_t count) {
  (void)options;
  for (size_t i = 0; i < count; i++) {
    note("option %s=%s\n", keys[i], values[i]);
    if (strstr(keys[i], "cache_path")) snprintf(cache, sizeof cache, "%s", values[i]);
  }
  return NULL;
}
static void *append(void *options, const void *made) { (void)options; (void)made; note("append\n"); return NULL; }
static void *register_library(void *env, const char *name, const char *path) { (void)env; note("register %s %s\n", name, path); return NULL; }
static void *get_devices(const void *env, const void *const **devices, size_t *count) {
  static const void *listed[] = {"OtherProvider", "NvTensorRTRTXExecutionProvider"};
  (void)env;
  *devices = listed;
  *count = getenv("FAKE_ORT_NO_DEVICE") ? 1 : 2;
  return NULL;
}
static const char *device_name(const void *device) { return device; }
static void *append_devices(void *options, void *env, const void *const *devices, size_t count, const char *const *keys, const char *const *values,
                            size_t many) {
  (void)env;
  note("append %zu %s\n", count, (const char *)devices[0]);
  return update(options, keys, values, many);
}
static void *create_session(const void *env, const char *model, const void *options, void **session) {
  (void)env;
  (void)options;
  note("session %s\n", model);
  *session = cache;
  return failed("FAKE_ORT_FAIL_SESSION");
}
// As a provider that keeps what it made.
static void release_session(void *session) {
  char path[4200];
  (void)session;
  note("session released\n");
  if (!*cache) return;
  snprintf(path, sizeof path, "%s/kept", cache);
  FILE *file = fopen(path, "w");
  if (file) fputs("compiled", file), fclose(file);
}
static void *input_count(const void *session, size_t *count) { (void)session; *count = 2; return NULL; }
static void *input_name(const void *session, size_t index, void *allocator, char **name) {
  (void)session; (void)allocator;
  *name = strdup(index ? "attention_mask" : "input_ids");
  return NULL;
}
static void *output_name(const void *session, size_t index, void *allocator, char **name) {
  (void)session; (void)index; (void)allocator;
  *name = strdup("sentence_embedding");
  return NULL;
}
static void *release_text(void *allocator, void *text) { (void)allocator; free(text); return NULL; }
static void *tensor(const void *info, void *data, size_t size, const int64_t *shape, size_t rank, int type, void **value) {
  (void)info; (void)data; (void)size; (void)rank; (void)type;
  struct value *made = calloc(1, sizeof *made);
  memcpy(made->shape, shape, sizeof made->shape);
  *value = made;
  return NULL;
}
static void release_value(void *value) { free(((struct value *)value)->numbers); free(value); }
static void *run(void *session, const void *options, const char *const *names, const void *const *values, size_t count, const char *const *outputs,
                 size_t many, void **made) {
  (void)session; (void)options; (void)names; (void)count; (void)outputs; (void)many;
  const struct value *ids = values[0];
  struct value *vectors = calloc(1, sizeof *vectors);
  note("run %d x %d\n", (int)ids->shape[0], (int)ids->shape[1]);
  if (failed("FAKE_ORT_FAIL_RUN")) return free(vectors), failed("FAKE_ORT_FAIL_RUN");
  vectors->shape[0] = ids->shape[0];
  vectors->shape[1] = (int64_t)dimension();
  vectors->numbers = calloc((size_t)vectors->shape[0] * dimension(), sizeof(float));
  for (int64_t row = 0; row < vectors->shape[0]; row++) vectors->numbers[(size_t)row * dimension()] = 1;
  *made = vectors;
  return NULL;
}
static void *data_of(void *value, void **data) { *data = ((struct value *)value)->numbers; return NULL; }
static void *shape_of(const void *value, void **info) { *info = (void *)value; return NULL; }
static void *type_of(const void *info, int *type) { (void)info; *type = 1; return NULL; }
static void *rank_of(const void *info, size_t *rank) { (void)info; *rank = 2; return NULL; }
static void *dimensions_of(const void *info, int64_t *shape, size_t rank) {
  memcpy(shape, ((const struct value *)info)->shape, rank * sizeof *shape);
  return NULL;
}
static void *assignment(const void *session, const void *const **graphs, size_t *count) {
  static const void *listed[] = {"device", "CPUExecutionProvider"};
  (void)session;
  *graphs = listed;
  *count = 2;
  return NULL;
}
static void *assigned_name(const void *graph, const char **name) {
  *name = strcmp(graph, "device") ? "CPUExecutionProvider" : nodes_of();
  return NULL;
}
static void *assigned_nodes(const void *graph, const void *const **nodes, size_t *count) {
  *nodes = NULL;
  *count = strcmp(graph, "device") ? 2 : 59;
  return NULL;
}

static void *table[SLOTS];

static const void *get_api(uint32_t version) {
  table[2] = message; table[3] = create_env; table[7] = create_session; table[9] = run; table[10] = create_one; table[17] = disable;
  table[22] = set_number; table[23] = set_level; table[24] = set_number; table[30] = input_count; table[36] = input_name; table[37] = output_name;
  table[49] = tensor; table[51] = data_of; table[60] = type_of; table[61] = rank_of; table[62] = dimensions_of; table[65] = shape_of;
  table[69] = memory_info; table[76] = release_text; table[78] = create_one;
  for (int slot = 92; slot <= 100; slot++) table[slot] = nothing;
  table[95] = release_session; table[96] = release_value; table[130] = add_entry;
  table[170] = table[204] = append; table[171] = table[205] = create_one; table[172] = table[206] = update; table[174] = table[208] = nothing;
  table[301] = register_library; table[303] = get_devices; table[304] = append_devices; table[312] = device_name;
  table[407] = assignment; table[408] = assigned_name; table[409] = assigned_nodes;
  return version <= 24 ? table : NULL;
}
static const char *version(void) { return "1.31.1"; }

const void *OrtGetApiBase(void) {
  static const struct { const void *(*get_api)(uint32_t); const char *(*version)(void); } base = {get_api, version};
  return &base;
}
