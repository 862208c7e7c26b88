/* Makes vectors by a bundle's libembed, for the proof.
 *
 *     call-libembed LIBRARY          in the bundle's folder
 *
 * A line of input is a text, the bytes of its UTF-8 as hexadecimal digits; a line of output is its vector, the bytes of its floats likewise,
 * in quotation marks. What the library refuses goes to stderr, and its code is the exit code.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

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

static int digit(char letter) { return letter <= '9' ? letter - '0' : letter - 'a' + 10; }

/* The bytes of a line, where it stands, and how many they are. */
static size_t bytes_of(char *line) {
  size_t size = 0;
  for (; line[2 * size] > '\n'; size++) line[size] = (char)(digit(line[2 * size]) << 4 | digit(line[2 * size + 1]));
  return size;
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
    starts[texts] = line;
    lengths[texts++] = bytes_of(line);
    line = NULL;
  }
  size_t width = ((dimension_function *)function("embed_dimension"))(bundle) * sizeof(float);
  unsigned char *vectors = malloc(texts * width + 1);
  check(((texts_function *)function("embed_texts"))(bundle, starts, lengths, texts, (float *)vectors, message, sizeof message), message);
  for (; texts; texts--, puts("\"")) {
    putchar('"');
    for (size_t at = 0; at < width; at++) printf("%02x", *vectors++);
  }
  return 0;
}
