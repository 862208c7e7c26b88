// What musl, inside a library, has in the place of its own: the thread pointer is that of the caller's C library, which may be any, and tells threads
// apart, no more. Every thread of the caller's may come; those that the library begins call nothing of the caller's.
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arm64.h"
#include "pthread_impl.h"
// glue.h, which meta.h includes, has other names for these.
#include "meta.h"
#undef malloc
#undef realloc
#undef free
#undef mmap

static struct pthread anybody = {.locale = &libc.global_locale};
#undef __pthread_self
#define __pthread_self() (&anybody)
#include "errno/strerror.c"

enum { ENTRIES = 64, LARGEST_PAGE = 65536, WORD = sizeof(size_t) };
static size_t auxiliary[2 * ENTRIES + 2], random_bytes[2];
extern uintptr_t __stack_chk_guard;

// How many bytes of a file there are, no more than there is room for; none of one that cannot be read.
static size_t bytes_of(const char *path, char *to, size_t room) {
	int file = __syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	size_t size = 0;
	for (long got = 1; file >= 0 && got > 0 && size < room; size += got > 0 ? got : 0) got = __syscall(SYS_read, file, to + size, room - size);
	if (file >= 0) __syscall(SYS_close, file);
	return size;
}

// Apps for Android may not read what Linux tells a program at its start, and no C library hands it on to all libraries.
static void read_auxiliary(void) {
	if (bytes_of("/proc/self/auxv", (char *)auxiliary, 2 * ENTRIES * WORD)) return;
	size_t first = 0, second = 0;
#ifdef __aarch64__
	char text[2048];
	text[bytes_of("/proc/cpuinfo", text, sizeof text - 1)] = 0;
	read_features(text, &first, &second);
#endif
	__syscall(SYS_getrandom, random_bytes, sizeof random_bytes, 0);
	const size_t known[] = {AT_PAGESZ, LARGEST_PAGE, AT_RANDOM, (size_t)random_bytes, AT_HWCAP, first, AT_HWCAP2, second};
	memcpy(auxiliary, known, sizeof known);
}

// Before all that C++ begins.
__attribute__((constructor(101), no_stack_protector)) static void begin(void) {
	read_auxiliary();
	libc.auxv = auxiliary;
	libc.need_locks = 1;
	for (size_t *entry = auxiliary; *entry; entry += 2) {
		if (entry[0] == AT_PAGESZ) libc.page_size = entry[1];
		if (entry[0] == AT_RANDOM) memcpy(&__stack_chk_guard, (char *)entry[1], sizeof __stack_chk_guard);
	}
	// As musl has it: a string does not end where the guard is read or written over by one.
	((char *)&__stack_chk_guard)[1] = 0;
	// What follows the program's data is for the caller's malloc alone.
	ctx.brk = -1;
}

// errno of each thread, by its thread pointer: no two that run have the same.
enum { PLACES = 1024 };
static struct {
	volatile uintptr_t thread;
	int number;
} places[PLACES];

int *__errno_location(void) {
	const uintptr_t thread = __get_tp(), first = thread * 0x9E3779B97F4A7C15 >> 54;
	for (size_t step = 0; step < PLACES; step++) {
		const size_t at = (first + step) % PLACES;
		if (!places[at].thread) a_cas_p(&places[at].thread, 0, (void *)thread);
		if (places[at].thread == thread) return &places[at].number;
	}
	return &places[first].number;  // of more threads than that have failed; two of them may share one
}
weak_alias(__errno_location, ___errno_location);

int __pthread_setcancelstate(int wanted, int *before) {
	if (before) *before = PTHREAD_CANCEL_DISABLE;
	return 0;
}
weak_alias(__pthread_setcancelstate, pthread_setcancelstate);

// The library stays until the process ends, which ends without it.
int __cxa_atexit(void (*function)(void *), void *argument, void *library) { return 0; }

#ifdef __x86_64__
// musl's own asks by a call that apps for Android may not make.
int lstat(const char *restrict path, struct stat *restrict status) {
	return __syscall_ret(__syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW));
}
#endif

_Noreturn void abort(void) {
	__syscall(SYS_tkill, __syscall(SYS_gettid), SIGABRT);
	for (;;) a_crash();
}

// A thread of the library's: it lies at the end of its stack, below which nothing can be written.
enum { STACK = 8 << 20, GUARD = LARGEST_PAGE };
typedef struct {
	void *self;
	uintptr_t before[4], canary;  // where x86-64 has them
	void *(*function)(void *);
	void *argument, *result;
	volatile int id;  // Linux makes it 0 when the thread has ended
} Thread;
_Static_assert(offsetof(Thread, canary) == 0x28, "the compiler reads it there");

static int run(void *given) {
	Thread *thread = given;
	thread->result = thread->function(thread->argument);
	return 0;
}

int pthread_create(pthread_t *restrict made, const pthread_attr_t *restrict attributes, void *(*function)(void *), void *restrict argument) {
	char *memory = __mmap(NULL, GUARD + STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED) return EAGAIN;
	Thread *thread = (Thread *)(memory + GUARD + STACK) - 1;
	if (__mprotect(memory + GUARD, STACK, PROT_READ | PROT_WRITE)) {
		__munmap(memory, GUARD + STACK);
		return EAGAIN;
	}
	*thread = (Thread){.self = thread, .canary = __stack_chk_guard, .function = function, .argument = argument};
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
	// The caller's handlers of signals would call its C library, which does not know this thread.
	sigset_t before;
	__block_all_sigs(&before);
	const int id = __clone(run, (void *)((uintptr_t)thread & -16), flags, thread, &thread->id, thread, &thread->id);
	__restore_sigs(&before);
	if (id < 0) {
		__munmap(memory, GUARD + STACK);
		return EAGAIN;
	}
	*made = (pthread_t)thread;
	return 0;
}

int pthread_join(pthread_t given, void **result) {
	Thread *thread = (Thread *)given;
	for (int id; (id = thread->id);) __syscall(SYS_futex, &thread->id, FUTEX_WAIT, id, NULL);
	if (result) *result = thread->result;
	__munmap((char *)(thread + 1) - GUARD - STACK, GUARD + STACK);
	return 0;
}
