/* Loaded before everything else into a program that does not ask the processor itself (LD_PRELOAD). */
#include "hide_cpuid.h"

#ifdef __aarch64__
#include <stdlib.h>
#include <sys/auxv.h>

/* What getauxval is called in the copy. PROVE_HIDDEN says which bits of AT_HWCAP and of AT_HWCAP2 such a processor has not. */
unsigned long hideauxva(unsigned long type) {
  unsigned long value = getauxval(type), hidden[2] = {0, 0};
  char *text = getenv("PROVE_HIDDEN");
  for (int i = 0; text && i < 2; ++i) hidden[i] = strtoul(text, &text, 16);
  return type == AT_HWCAP ? value & ~hidden[0] : type == AT_HWCAP2 ? value & ~hidden[1] : value;
}
#endif

__attribute__((constructor)) static void before_all_others(void) { hide_cpuid(); }
