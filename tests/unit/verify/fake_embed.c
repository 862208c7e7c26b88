/* A bundle's program as far as its proof runs it: a vector a line, which is (1, 0), and on a processor of the level BROKEN
 * (0, 1). The level is how many of AVX, AVX2 and AVX-512 cpuid says. With LIBRARY, that is asked in a library. */
#include <cpuid.h>
#include <dlfcn.h>
#include <stdio.h>

int level(void) {
  unsigned a, b, c, d;
  __cpuid(1, a, b, c, d);
  int has_avx = c >> 28 & 1;
  __cpuid_count(7, 0, a, b, c, d);
  return has_avx + (b >> 5 & 1) + (b >> 16 & 1);
}

#ifndef SHARED
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
    if (letter == '\n') puts(broken ? "[0, 1]" : "[1, 0]");
  return 0;
}
#endif
