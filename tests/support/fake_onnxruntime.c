/* A newer ONNX Runtime with execution providers, made of one without: what computes is the real library beside it
 * (libreal.so), on the processor. The environment says what a GPU's session says instead:
 *
 *   FAKE_ORT_SESSION, FAKE_ORT_RUN   what creating a session with a provider, and running it, fails with
 *   FAKE_ORT_DEVICES                 how many devices a plugin finds (1)
 *   FAKE_ORT_NODES                   how many nodes the provider was given (1)
 *   FAKE_ORT_OPTIONS                 a file that the provider's options are written to, a line each
 *   FAKE_ORT_RECORD                  a file that what a session is asked for is added to, a line each
 *
 * When a session ends, what a provider keeps is written into the folder that an option named "..._cache_path" names.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 420, CREATE_STATUS = 0, CREATE_SESSION = 7, CREATE_FROM_ARRAY = 8, RUN = 9 };
enum { CREATE_OPTIONS = 10, NO_PATTERN = 17, OPTIMIZATION = 23, RELEASE_SESSION = 95, ENTRY = 130 };
enum { DIMENSIONS = 62, SHAPE = 65, RELEASE_SHAPE = 99 };
typedef void *Status;
struct base {
  void **(*get_api)(uint32_t);
  const char *(*version_string)(void);
};
static void *table[SLOTS], *real[SLOTS];
static char cache[4096], provider[64];
static Status (*real_create)(void *, const char *, void *, void **);
static Status (*real_from_array)(void *, void *, size_t, void *, void **);
static Status (*real_run)(void *, void *, void *, void *, size_t, void *, size_t, void *);

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
static int said(const char *name) {
  const char *value = getenv(name);
  return value ? atoi(value) : 1;
}
static Status fail(const char *name) {
  const char *text = getenv(name);
  return provider[0] && text ? ((Status(*)(int, const char *))real[CREATE_STATUS])(11, text) : NULL;
}
static Status create_options(void *made) {
  provider[0] = cache[0] = 0; /* none, until one is appended */
  return ((Status(*)(void *))real[CREATE_OPTIONS])(made);
}
static Status create(void *env, const char *model, void *options, void **session) {
  Status failure = fail("FAKE_ORT_SESSION");
  note("session %s\n", model);
  return failure ? failure : real_create(env, model, options, session);
}
static Status from_array(void *env, void *model, size_t size, void *options, void **session) {
  Status failure = fail("FAKE_ORT_SESSION");
  return failure ? failure : real_from_array(env, model, size, options, session);
}
static Status run(void *s, void *o, void *names, void *in, size_t count, void *out_names, size_t out, void *values) {
  Status failure = fail("FAKE_ORT_RUN");
  void *info;
  int64_t shape[2];
  if (!((Status(*)(void *, void **))real[SHAPE])(*(void **)in, &info)) {
    ((Status(*)(void *, int64_t *, size_t))real[DIMENSIONS])(info, shape, 2);
    ((void (*)(void *))real[RELEASE_SHAPE])(info);
    note("run %d x %d\n", (int)shape[0], (int)shape[1]);
  }
  return failure ? failure : real_run(s, o, names, in, count, out_names, out, values);
}
static Status no_pattern(void *options) {
  note("no memory pattern\n");
  return ((Status(*)(void *))real[NO_PATTERN])(options);
}
static Status optimization(void *options, int level) {
  note("optimization %d\n", level);
  return ((Status(*)(void *, int))real[OPTIMIZATION])(options, level);
}
static Status entry(void *options, const char *key, const char *value) {
  note("entry %s=%s\n", key, value);
  return ((Status(*)(void *, const char *, const char *))real[ENTRY])(options, key, value);
}
static void release_session(void *session) {
  char path[5000];
  FILE *file;
  snprintf(path, sizeof path, "%s/edgepack", cache);
  if (session && cache[0] && (file = fopen(path, "w"))) {
    fputs("compiled kernels", file);
    fclose(file);
  }
  ((void (*)(void *))real[RELEASE_SESSION])(session);
}
static Status take(const char *name, const char *const *keys, const char *const *values, size_t count) {
  const char *path = getenv("FAKE_ORT_OPTIONS");
  FILE *file = path ? fopen(path, "w") : NULL;
  snprintf(provider, sizeof provider, "%s", name);
  note("provider %s\n", name);
  for (size_t i = 0; i < count; i++) {
    if (file) fprintf(file, "%s=%s\n", keys[i], values[i]);
    note("option %s=%s\n", keys[i], values[i]);
    if (strstr(keys[i], "_cache_path")) snprintf(cache, sizeof cache, "%s", values[i]);
  }
  if (file) fclose(file);
  return NULL;
}

static char registered[64];
static const char *const devices[] = {"a GPU", "another GPU"};
static Status register_library(void *env, const char *name, const char *path) {
  snprintf(registered, sizeof registered, "%s", name);
  note("register %s %s\n", name, path);
  return NULL;
}
static Status get_devices(void *env, void *found, size_t *count) {
  *(const void **)found = devices;
  *count = said("FAKE_ORT_DEVICES");
  return NULL;
}
static const char *name_of(void *device) { return registered; }
static Status append(void *o, void *env, void *d, size_t n, const char *const *k, const char *const *v, size_t count) {
  return take(registered, k, v, count);
}

static Status make(void **made) {
  *made = table;
  return NULL;
}
static Status update_cuda(void *made, const char *const *keys, const char *const *values, size_t count) {
  return take("CUDAExecutionProvider", keys, values, count);
}
static Status append_cuda(void *options, void *made) { return NULL; }
static void release(void *made) {}

static void *graphs[] = {table};
static Status assigned(void *session, void *found, size_t *count) {
  *(void **)found = graphs;
  *count = said("FAKE_ORT_NODES") > 0;
  return NULL;
}
static Status assigned_to(void *graph, const char **name) {
  *name = provider;
  return NULL;
}
static Status assigned_nodes(void *graph, void *found, size_t *count) {
  *(void **)found = graphs;
  *count = said("FAKE_ORT_NODES");
  return NULL;
}

static void **get_api(uint32_t version) { return table; }
static const char *version_string(void) { return "1.24.4"; }
static struct base base = {get_api, version_string};

void *OrtGetApiBase(void) {
  char path[4096];
  Dl_info here;
  dladdr((void *)OrtGetApiBase, &here);
  snprintf(path, sizeof path, "%.*s/libreal.so", (int)(strrchr(here.dli_fname, '/') - here.dli_fname), here.dli_fname);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return NULL;
  memcpy(real, ((struct base * (*)(void)) dlsym(library, "OrtGetApiBase"))()->get_api(5), 150 * sizeof(void *));
  memcpy(table, real, sizeof real);
  real_create = real[CREATE_SESSION], real_from_array = real[CREATE_FROM_ARRAY], real_run = real[RUN];
  table[CREATE_SESSION] = create, table[CREATE_FROM_ARRAY] = from_array, table[RUN] = run;
  table[NO_PATTERN] = no_pattern, table[OPTIMIZATION] = optimization, table[ENTRY] = entry;
  table[CREATE_OPTIONS] = create_options, table[RELEASE_SESSION] = release_session;
  table[205] = make, table[206] = update_cuda, table[204] = append_cuda, table[208] = release;
  table[301] = register_library, table[303] = get_devices, table[304] = append, table[312] = name_of;
  table[407] = assigned, table[408] = assigned_to, table[409] = assigned_nodes;
  return &base;
}
