// What runs first: the words and the environment as musl wants them of Linux, in UTF-8.
#include <elf.h>
#include <string.h>

#include "win32.h"

int main(int, char **, char **);
int __libc_start_main(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void));

enum { AUXILIARY = 2 * 4 };

static int is_space(Wide letter) { return letter == ' ' || letter == '\t'; }

// One word of a command line, as Windows' own programs take it apart; 0 where there is none left. The program's name knows
// no backslashes; in others two before a quote are one, and two quotes within quotes are one.
static int next_word(const Wide **line, Wide *to, int program) {
	const Wide *at = *line;
	while (is_space(*at)) at++;
	if (!*at) return 0;
	for (int quoted = 0; *at && (quoted || !is_space(*at));) {
		size_t slashes = 0;
		while (!program && at[slashes] == '\\') slashes++;
		at += slashes;
		int quote = *at == '"';
		for (size_t index = 0; index < (quote ? slashes / 2 : slashes); index++) *to++ = '\\';
		if (!quote && slashes) continue;
		if (!quote || slashes % 2) *to++ = *at;
		else if (quoted && !program && at[1] == '"') *to++ = *at++;
		else quoted = !quoted;
		at++;
	}
	*to = 0;
	*line = at;
	return 1;
}

static size_t wide_size(const Wide *text) {
	size_t size = 0;
	while (text[size]) size++;
	return size;
}

static size_t words_of(const Wide *line, char **words) {
	Wide *room = __block((wide_size(line) + 1) * sizeof(Wide));
	size_t count = 0;
	while (next_word(&line, room, !count)) {
		if (words) words[count] = __narrow(room, 0);
		count++;
	}
	__free_block(room);
	return count;
}

static size_t variables_of(Wide *all, char **variables) {
	size_t count = 0;
	for (Wide *at = all; *at; at += wide_size(at) + 1) {
		if (*at == '=') continue;  // where each drive's folder is
		if (variables) variables[count] = __narrow(at, 0);
		count++;
	}
	return count;
}

#ifndef LIBRARY
static char *own_path(void) {
	Wide *wide = __block(LONGEST * sizeof(Wide));
	char *made = win32.GetModuleFileNameW(NULL, wide, LONGEST) ? __narrow(wide, 1) : NULL;
	__free_block(wide);
	// The prefix of long paths is put before it where it is wanted.
	return made && !strncmp(made, "//?/", 4) && made[5] == ':' ? made + 4 : made;
}
#endif

// As Microsoft's own programs make theirs: none of these is secret alone.
static void fill_secret(uint64_t secret[2]) {
	int64_t count;
	uint64_t time;
	win32.QueryPerformanceCounter(&count);
	win32.GetSystemTimePreciseAsFileTime(&time);
	uint64_t mixed = (uint64_t)count * 0x9E3779B97F4A7C15 ^ time ^ (uint64_t)(uintptr_t)&fill_secret ^ (uint64_t)(uintptr_t)secret << 16;
	for (int index = 0; index < 2; index++) {
		mixed += ((uint64_t)win32.GetCurrentProcessId() << 32 | win32.GetCurrentThreadId()) + 0x9E3779B97F4A7C15;
		uint64_t value = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9;
		value = (value ^ value >> 27) * 0x94D049BB133111EB;
		secret[index] = (value ^ value >> 31) & ~(uint64_t)0xFF;
	}
}

#ifndef LIBRARY
// The name by which the linker knows the start of a program; Windows calls it.
WINDOWS HIDDEN void _start(void) {
	static const uint16_t control = 0x37F;
	static uint64_t secret[2];
	__asm__ volatile("fldcw %0" : : "m"(control));
	__use_thread_pointer();
	fill_secret(secret);
	Wide *line = win32.GetCommandLineW(), *environment = win32.GetEnvironmentStringsW();
	size_t words = words_of(line, NULL), variables = variables_of(environment, NULL);
	char **all = __block((words + variables + 2 + AUXILIARY) * sizeof *all);
	words_of(line, all);
	variables_of(environment, all + words + 1);
	size_t *auxiliary = (size_t *)(all + words + 1 + variables + 1);
	const size_t facts[AUXILIARY] = {AT_PAGESZ, 4096, AT_RANDOM, (size_t)secret, AT_EXECFN, (size_t)own_path(), AT_NULL, 0};
	memcpy(auxiliary, facts, sizeof facts);
	__libc_start_main(main, (int)words, all, NULL, NULL, NULL);
}
#endif
