// UTF-8 here, UTF-16 there; paths of any length.
#include <errno.h>
#include <string.h>

#include "win32.h"

#ifdef LIBRARY
// A heap of its own, which goes as one when the library does.
static Handle heap;
static Handle blocks(void) { return heap; }

int __make_heap(void) { return (heap = win32.HeapCreate(0, 0, 0)) != NULL; }
void __drop_heap(void) { win32.HeapDestroy(heap); }
#else
static Handle blocks(void) { return win32.GetProcessHeap(); }
#endif

void *__block(size_t size) { return win32.HeapAlloc(blocks(), ZEROED, size); }

void __free_block(void *block) {
	if (block) win32.HeapFree(blocks(), 0, block);
}

char *__narrow(const Wide *text, int slashes) {
	int size = win32.WideCharToMultiByte(UTF8, 0, text, -1, NULL, 0, NULL, NULL);
	char *made = __block((size_t)size + 1);
	if (!made) return NULL;
	win32.WideCharToMultiByte(UTF8, 0, text, -1, made, size, NULL, NULL);
	for (char *at = made; slashes && *at; at++)
		if (*at == '\\') *at = '/';
	return made;
}

static size_t length(const Wide *text) {
	size_t size = 0;
	while (text[size]) size++;
	return size;
}

enum { LONG = 240 };  // from here on Windows wants a path in full, with a prefix

// Full, with the prefix; `path` goes.
static Wide *prefixed(Wide *path, long *failure) {
	static const Wide device[] = {'\\', '\\', '?', '\\'}, share[] = {'\\', '\\', '?', '\\', 'U', 'N', 'C', '\\'};
	Wide *made = __block(LONGEST * sizeof(Wide));
	uint32_t size = made ? win32.GetFullPathNameW(path, LONGEST - 16, made + 8, NULL) : 0;
	__free_block(path);
	*failure = made ? -ENAMETOOLONG : -ENOMEM;
	if (!size || size >= LONGEST - 16) {
		__free_block(made);
		return NULL;
	}
	if (made[8] == '\\' && made[9] == '\\' && made[10] != '?' && made[10] != '.') {
		memmove(made + 8, made + 10, (size_t)(size - 1) * sizeof(Wide));
		memcpy(made, share, sizeof share);
		return made;
	}
	if (made[8] == '\\') {
		memmove(made, made + 8, (size_t)(size + 1) * sizeof(Wide));
		return made;
	}
	memmove(made + 4, made + 8, (size_t)(size + 1) * sizeof(Wide));
	memcpy(made, device, sizeof device);
	return made;
}

Wide *__wide_path(const char *path, long *failure) {
	// What only Linux has must not be found where Windows has something of that name (wine shows Linux' folders).
	*failure = -ENOENT;
	if (!*path || !strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5)) return NULL;
	if (!strcmp(path, "/dev/null")) path = "NUL";
	int size = win32.MultiByteToWideChar(UTF8, STRICT_UTF8, path, -1, NULL, 0);
	if (!size) return NULL;
	Wide *made = __block((size_t)size * sizeof(Wide));
	*failure = -ENOMEM;
	if (!made) return NULL;
	win32.MultiByteToWideChar(UTF8, STRICT_UTF8, path, -1, made, size);
	for (Wide *at = made; *at; at++)
		if (*at == '/') *at = '\\';
	return length(made) < LONG ? made : prefixed(made, failure);
}
