// What Linux says of an arm64 processor in /proc/cpuinfo, as far as it decides which kernels run.
#pragma once
#include <string.h>

enum { DOTPROD = 1 << 20, I8MM = 1 << 13 };  // bits of AT_HWCAP and of AT_HWCAP2

static int has_word(const char *line, const char *word) {
	const size_t size = strlen(word), end = strcspn(line, "\n");
	for (const char *at = line; (at = strstr(at, word)) && at < line + end; at += size)
		if (at[-1] == ' ' && (at[size] == ' ' || at[size] == '\n' || !at[size])) return 1;
	return 0;
}

// All processors of a device can do what is said of the first.
static void read_features(const char *text, size_t *first, size_t *second) {
	const char *features = strstr(text, "Features");
	*first = features && has_word(features, "asimddp") ? DOTPROD : 0;
	*second = features && has_word(features, "i8mm") ? I8MM : 0;
}
