// Memory: of its own, and files in it.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "win32.h"

#ifdef LIBRARY
#include <stdatomic.h>

// What is mapped, to be given back when the library goes: whoever has it loaded next finds no less memory.
typedef struct Kept {
	struct Kept *next;
	void *place;
	int file;
} Kept;
static Kept *all;
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void enter(void) {
	while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) win32.Sleep(0);
}
static void leave(void) { atomic_flag_clear_explicit(&busy, memory_order_release); }

static void drop(void *place, int file) {
	if (file) win32.UnmapViewOfFile(place);
	else win32.VirtualFree(place, 0, MEM_RELEASE_);
}

static void *keep(void *place, int file) {
	Kept *kept = place ? __block(sizeof *kept) : NULL;
	if (place && !kept) drop(place, file);
	if (!kept) return NULL;
	enter();
	*kept = (Kept){all, place, file};
	all = kept;
	leave();
	return place;
}

static void forget(void *place) {
	enter();
	Kept **at = &all, *found;
	while ((found = *at) && found->place != place) at = &found->next;
	if (found) *at = found->next;
	leave();
	__free_block(found);
}

void __drop_maps(void) {
	for (Kept *each = all; each; each = each->next) drop(each->place, each->file);
	all = NULL;
}
#else
#define keep(place, file) (place)
#define forget(place) ((void)0)
#endif

static uint32_t protection(int protect) {
	return protect & PROT_WRITE ? PAGE_READWRITE_ : protect & PROT_READ ? PAGE_READONLY_ : PAGE_NOACCESS_;
}

static long map_file(Handle file, size_t size, int protect, int flags, long offset) {
	// Nothing here writes to files through memory.
	if (flags & MAP_SHARED && protect & PROT_WRITE) return -ENODEV;
	int own = !!(protect & PROT_WRITE);
	Handle mapping = win32.CreateFileMappingW(file, NULL, own ? PAGE_WRITECOPY_ : PAGE_READONLY_, 0, 0, NULL);
	if (!mapping) return __failed();
	void *made = win32.MapViewOfFile(mapping, own ? FILE_MAP_COPY_ : FILE_MAP_READ_, (uint32_t)((uint64_t)offset >> 32),
	                                 (uint32_t)offset, size);
	long failure = __failed();
	win32.CloseHandle(mapping);
	return keep(made, 1) ? (long)made : failure;
}

long __map(void *place, size_t size, int protect, int flags, int file, long offset) {
	if (flags & MAP_FIXED) return -EINVAL;
	if (!(flags & MAP_ANONYMOUS)) {
		Handle handle = __file_handle(file);
		return handle == (Handle)-1 ? -EBADF : map_file(handle, size, protect, flags, offset);
	}
	uint32_t how = protect == PROT_NONE ? MEM_RESERVE_ : MEM_RESERVE_ | MEM_COMMIT_;
	void *made = win32.VirtualAlloc(NULL, size, how, protection(protect));
	return keep(made, 0) ? (long)made : -ENOMEM;
}

// Windows gives back what it gave, whole; of parts only the memory, not the place.
long __unmap(void *place, size_t size) {
	MemoryInfo info;
	if (!win32.VirtualQuery(place, &info, sizeof info) || info.state == MEM_FREE_) return -EINVAL;
	if (info.type == MEM_MAPPED_) {
		forget(place);
		return win32.UnmapViewOfFile(place) ? 0 : __failed();
	}
	char *end = (char *)place + size;
	int whole = info.base == place;
	for (char *at = place; whole && at < end; at = (char *)info.place + info.size)
		whole = win32.VirtualQuery(at, &info, sizeof info) && info.base == place;
	if (whole) whole = !win32.VirtualQuery(end, &info, sizeof info) || info.state == MEM_FREE_ || info.base != place;
	if (whole) forget(place);
	return win32.VirtualFree(place, whole ? 0 : size, whole ? MEM_RELEASE_ : MEM_DECOMMIT_) ? 0 : __failed();
}

long __protect(void *place, size_t size, int protect) {
	MemoryInfo info;
	uint32_t before;
	if (!win32.VirtualQuery(place, &info, sizeof info)) return -EINVAL;
	if (info.type == MEM_MAPPED_ || protect == PROT_NONE)
		return win32.VirtualProtect(place, size, protection(protect), &before) ? 0 : __failed();
	// What was only reserved is made with it.
	return win32.VirtualAlloc(place, size, MEM_COMMIT_, protection(protect)) ? 0 : -ENOMEM;
}

// A file's pages go back to the system: what is unlocked without having been locked leaves the working set.
long __advise(void *place, size_t size, int advice) {
	MemoryInfo info;
	if (advice == MADV_DONTNEED && win32.VirtualQuery(place, &info, sizeof info) && info.type == MEM_MAPPED_)
		win32.VirtualUnlock(place, size);
	return 0;
}
