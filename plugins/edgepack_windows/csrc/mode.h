// How numbers are rounded: the library's code wants it as Linux begins a program with it, and its caller as it was.
#pragma once
#include <stdint.h>

typedef struct {
	uint32_t vectors;
	uint16_t old_unit;
} Mode;

static inline void set_mode(Mode mode) {
	__asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(mode.vectors), "m"(mode.old_unit));
}

static inline Mode enter_mode(void) {
	Mode before;
	__asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(before.vectors), "=m"(before.old_unit));
	set_mode((Mode){0x1F80, 0x37F});
	return before;
}
