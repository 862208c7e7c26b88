/* Runs a bundle's libembed as its program is run: JSON lines, each with a text, become JSON lines, each with its embedding.
 *
 *     call-libembed LIBRARY          in the bundle's folder
 *
 * What the library refuses goes to stderr, and its code is the exit code. Lines are as Python's json writes them: ASCII,
 * and no other key.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENDED = 5, MESSAGE = 1024 };

typedef int open_function(const char *, const void *, void **, char *, size_t);
typedef size_t dimension_function(const void *);
typedef int texts_function(const void *, const char *const *, const size_t *, size_t, float *, char *, size_t);

static void *library;

static void *function(const char *name) {
  void *found = library ? dlsym(library, name) : NULL;
  if (found) return found;
  fprintf(stderr, "%s\n", dlerror());
  exit(ENDED);
}

static void check(int code, const char *message) {
  if (!code) return;
  fprintf(stderr, "%s\n", message);
  exit(code);
}

static unsigned long hexadecimal(const char *digits) {
  char four[5] = {0};
  return strtoul(strncpy(four, digits, 4), NULL, 16);
}

static char *put(char *out, unsigned long point) {
  if (point < 0x80) {
    *out++ = (char)point;
    return out;
  }
  int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  *out++ = (char)((0x780 >> more) | (point >> (6 * more)));
  while (more--) *out++ = (char)(0x80 | (point >> (6 * more) & 0x3F));
  return out;
}

/* The string after the colon, unescaped where it stands; it ends before the last quote. */
static char *text_of(char *line, size_t *length) {
  char *in = strchr(line, ':'), *end = strrchr(line, '"');
  in = in ? strchr(in, '"') : NULL;
  if (!in || in == end) check(ENDED, "a line without a text");
  char *start = ++in, *out = start;
  while (in < end) {
    if (*in != '\\') {
      *out++ = *in++;
      continue;
    }
    const char *plain = "\"\\/bfnrt", *known = strchr(plain, in[1]);
    if (known) {
      *out++ = "\"\\/\b\f\n\r\t"[known - plain];
      in += 2;
      continue;
    }
    unsigned long point = hexadecimal(in + 2);
    in += 6;
    if (point >> 10 == 0x36 && in[0] == '\\' && in[1] == 'u') {
      point = 0x10000 + ((point & 0x3FF) << 10 | (hexadecimal(in + 2) & 0x3FF));
      in += 6;
    }
    out = put(out, point);
  }
  *length = (size_t)(out - start);
  return start;
}

int main(int count, char **words) {
  char message[MESSAGE] = "", *line = NULL;
  size_t room = 0, texts = 0;
  const char **starts = NULL;
  size_t *lengths = NULL;
  void *bundle;
  library = count == 2 ? dlopen(words[1], RTLD_NOW) : NULL;
  check(((open_function *)function("embed_open"))(".", NULL, &bundle, message, sizeof message), message);
  while (getline(&line, &room, stdin) > 0) {
    starts = realloc(starts, (texts + 1) * sizeof *starts);
    lengths = realloc(lengths, (texts + 1) * sizeof *lengths);
    starts[texts] = text_of(line, &lengths[texts]);
    texts++;
    line = NULL;
  }
  size_t dimension = ((dimension_function *)function("embed_dimension"))(bundle);
  float *vectors = malloc((texts * dimension + 1) * sizeof *vectors);
  check(((texts_function *)function("embed_texts"))(bundle, starts, lengths, texts, vectors, message, sizeof message), message);
  for (size_t row = 0; row < texts; row++) {
    for (size_t at = 0; at < dimension; at++)
      printf("%s%.9g", at ? "," : "{\"embedding\":[", vectors[row * dimension + at]);
    puts("]}");
  }
  return 0;
}
