/* A bundle's program as far as its proof runs it: a vector a line, which is (1, 0), and on a processor of the level BROKEN
 * (0, 1). The level is how many of AVX, AVX2 and AVX-512 cpuid says. With LIBRARY, that is asked in a library. With
 * LIBEMBED it is the bundle's library, which takes no other texts than those. */
#include <cpuid.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int level(void) {
  unsigned a, b, c, d;
  __cpuid(1, a, b, c, d);
  int has_avx = c >> 28 & 1;
  __cpuid_count(7, 0, a, b, c, d);
  return has_avx + (b >> 5 & 1) + (b >> 16 & 1);
}

#ifdef LIBEMBED
int embed_open(const char *directory, const void *options, void **bundle, char *error, size_t error_size) {
  *bundle = error;
  FILE *golden = fopen("golden.json", "r");
  if (golden && !strcmp(directory, ".") && !options) return 0;
  snprintf(error, error_size, "no bundle here");
  return 4;
}

size_t embed_dimension(const void *bundle) { return 2; }

int embed_texts(const void *bundle, const char *const *texts, const size_t *lengths, size_t count, float *vectors,
                char *error, size_t error_size) {
  static const char *const expected[] = {LIBEMBED};
  int broken = level() == BROKEN;
  for (size_t at = 0; at < count; at++) {
    if (lengths[at] != strlen(expected[at]) || memcmp(texts[at], expected[at], lengths[at])) {
      snprintf(error, error_size, "another text at %zu", at);
      return 2;
    }
    vectors[2 * at] = !broken;
    vectors[2 * at + 1] = broken;
  }
  return 0;
}
#elif !defined(SHARED)
int main(void) {
  int (*ask)(void) = level;
#ifdef LIBRARY
  void *handle = dlopen(LIBRARY, RTLD_NOW);
  if (!handle) {
    fputs("error: no library\n", stderr);
    return 4;
  }
  ask = (int (*)(void))dlsym(handle, "level");
#endif
  int broken = ask() == BROKEN, letter;
  while ((letter = getchar()) != EOF)
    if (letter == '\n') puts(broken ? "{\"embedding\": [0, 1]}" : "{\"embedding\": [1, 0]}");
  return 0;
}
#endif
