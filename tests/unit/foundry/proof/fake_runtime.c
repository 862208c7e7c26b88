/* As much of ONNX Runtime's C API as the proof's program calls; the "model" is a text that says what to do.
 *
 * The vector is 1, the length of the text, and which of AVX, AVX2 and AVX-512 the processor has, as cpuid says it.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

static char said[256];
static float vector[5];
static int64_t length;

static void *error(const char *text) {
  strcpy(said, text);
  return said;
}
static const char *message(void *status) { return status; }
static void *make(void) { return NULL; }
static void *open_session(void *env, const char *model, void *options, void **session) {
  FILE *file = fopen(model, "r");
  char text[256] = "";
  if (!file || !fgets(text, sizeof text, file)) return error("no model");
  fclose(file);
  if (strstr(text, "lacks"))
    return error("Could not find an implementation for com.microsoft.QAttention(1) node with name 'Attention_0'");
  *session = said;
  return NULL;
}
static void *make_tensor(void *memory, void *data, size_t bytes, int64_t *shape, size_t rank, int type, void **made) {
  length = shape[1];
  *made = said;
  return NULL;
}
static void *run(void *session, void *options, const char **names, void **inputs, size_t count, const char **outputs,
                 size_t output_count, void **output) {
  vector[0] = 1;
  vector[1] = (float)length;
#ifdef __x86_64__
  unsigned a, b, c, d;
  __cpuid(1, a, b, c, d);
  vector[2] = (float)(c >> 28 & 1);
  __cpuid_count(7, 0, a, b, c, d);
  vector[3] = (float)(b >> 5 & 1);
  vector[4] = (float)(b >> 16 & 1);
#endif
  *output = vector;
  return NULL;
}
static void *get_data(void *value, void **data) {
  *data = value;
  return NULL;
}
static void release(void *value) {}

static void *table[131] = {
    [2] = message,     [3] = make,      [7] = open_session, [9] = run,      [10] = make,
    [22] = make,       [24] = make,     [49] = make_tensor, [51] = get_data, [69] = make, [96] = release,
};
static void *get_api(uint32_t version) { return version == 5 ? table : NULL; }
static const char *version_string(void) { return "1.21.0"; }
static struct {
  void *(*get_api)(uint32_t);
  const char *(*version_string)(void);
} base = {get_api, version_string};

void *OrtGetApiBase(void) { return &base; }
