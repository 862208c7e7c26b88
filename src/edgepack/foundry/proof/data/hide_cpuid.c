/* Loaded before everything else into a program that does not ask the processor itself (LD_PRELOAD). */
#include "hide_cpuid.h"

__attribute__((constructor)) static void before_all_others(void) { hide_cpuid(); }
