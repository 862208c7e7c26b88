/* Runs a model on an ONNX Runtime library and prints its vectors: the proof's program for processors that are emulated.
 *
 *     prove LIBRARY MODEL OUTPUT DIMENSION INPUT,... ID,... [ID,...]
 *
 * One line of hexadecimal float32 numbers for each text, which is given by its token ids. What the library refuses goes
 * to stderr, and the exit code is 1. Functions are taken from the C API's table by their places, which never change
 * (upstream guards them by static_asserts), so that no header of ONNX Runtime is needed.
 *
 * With PROVE_HIDDEN in its environment and a copy of the library that does not ask the processor, it runs the kernels
 * of a lower level of instruction sets than this x86-64 processor's own (hide_cpuid.h).
 */
#include "hide_cpuid.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { API_VERSION = 5, FATAL = 4, ARENA = 1, DEFAULT_MEMORY = 0, INT64 = 7, MAX_INPUTS = 8, MAX_LENGTH = 512 };

/* Places in OrtApi. */
enum {
  GET_ERROR_MESSAGE = 2,
  CREATE_ENV = 3,
  CREATE_SESSION = 7,
  RUN = 9,
  CREATE_SESSION_OPTIONS = 10,
  SET_LOG_SEVERITY = 22,
  SET_INTRA_OP_THREADS = 24,
  CREATE_TENSOR_WITH_DATA = 49,
  GET_TENSOR_MUTABLE_DATA = 51,
  CREATE_CPU_MEMORY_INFO = 69,
  RELEASE_VALUE = 96
};

typedef struct {
  void **(*get_api)(uint32_t version);
  const char *(*get_version_string)(void);
} ApiBase;

static void **api;

static void check(void *status) {
  if (status) {
    fprintf(stderr, "%s\n", ((const char *(*)(void *))api[GET_ERROR_MESSAGE])(status));
    exit(1);
  }
}

static void load(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  ApiBase *(*base)(void) = handle ? (ApiBase * (*)(void)) dlsym(handle, "OrtGetApiBase") : NULL;
  if (!base) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  api = base()->get_api(API_VERSION);
  if (!api) {
    fputs("the library does not offer its API\n", stderr);
    exit(1);
  }
}

static void *open_session(const char *model) {
  void *env, *options, *session;
  check(((void *(*)(int, const char *, void **))api[CREATE_ENV])(FATAL, "prove", &env));
  check(((void *(*)(void **))api[CREATE_SESSION_OPTIONS])(&options));
  check(((void *(*)(void *, int))api[SET_LOG_SEVERITY])(options, FATAL));
  check(((void *(*)(void *, int))api[SET_INTRA_OP_THREADS])(options, 1));
  check(((void *(*)(void *, const char *, void *, void **))api[CREATE_SESSION])(env, model, options, &session));
  return session;
}

static int read_ids(char *text, int64_t *ids) {
  int length = 0;
  for (char *word = strtok(text, ","); word && length < MAX_LENGTH; word = strtok(NULL, ",")) ids[length++] = atoll(word);
  return length;
}

static void *tensor(int64_t *values, int length) {
  static void *memory = NULL;
  int64_t shape[2] = {1, length};
  void *made;
  if (!memory) check(((void *(*)(int, int, void **))api[CREATE_CPU_MEMORY_INFO])(ARENA, DEFAULT_MEMORY, &memory));
  check(((void *(*)(void *, void *, size_t, int64_t *, size_t, int, void **))api[CREATE_TENSOR_WITH_DATA])(
      memory, values, (size_t)length * sizeof(int64_t), shape, 2, INT64, &made));
  return made;
}

static void run(void *session, const char *output_name, int dimension, const char **names, int inputs, int64_t *ids,
                int length) {
  static int64_t ones[MAX_LENGTH], zeros[MAX_LENGTH];
  void *tensors[MAX_INPUTS], *output = NULL;
  float *vector;
  for (int i = 0; i < length; ++i) ones[i] = 1;
  for (int i = 0; i < inputs; ++i) {
    int64_t *values = !strcmp(names[i], "input_ids") ? ids : !strcmp(names[i], "attention_mask") ? ones : zeros;
    tensors[i] = tensor(values, length);
  }
  check(((void *(*)(void *, void *, const char **, void **, size_t, const char **, size_t, void **))api[RUN])(
      session, NULL, names, tensors, (size_t)inputs, &output_name, 1, &output));
  check(((void *(*)(void *, void *))api[GET_TENSOR_MUTABLE_DATA])(output, &vector));
  for (int i = 0; i < dimension; ++i) printf(i + 1 < dimension ? "%a " : "%a\n", (double)vector[i]);
  for (int i = 0; i < inputs; ++i) ((void (*)(void *))api[RELEASE_VALUE])(tensors[i]);
  ((void (*)(void *))api[RELEASE_VALUE])(output);
}

int main(int argc, char **argv) {
  const char *names[MAX_INPUTS];
  int64_t ids[MAX_LENGTH];
  int inputs = 0;
  if (argc < 7) {
    fputs("usage: prove LIBRARY MODEL OUTPUT DIMENSION INPUT,... ID,... [ID,...]\n", stderr);
    return 2;
  }
  hide_cpuid();
  load(argv[1]);
  for (char *name = strtok(argv[5], ","); name && inputs < MAX_INPUTS; name = strtok(NULL, ",")) names[inputs++] = name;
  void *session = open_session(argv[2]);
  for (int i = 6; i < argc; ++i) {
    int length = read_ids(argv[i], ids);
    run(session, argv[3], atoi(argv[4]), names, inputs, ids, length);
  }
  return 0;
}
