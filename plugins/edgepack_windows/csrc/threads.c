// Threads: Windows' own, with its stacks; what musl knows of each lies in a slot of Windows'.
#include <stdarg.h>
#include <string.h>

#include "pthread_impl.h"
#include "stdio_impl.h"
#include "win32.h"

static uint32_t slot;

#ifdef LIBRARY
// Of its own threads; those of the caller have what its program says.
enum { STACK = 8 << 20, STACK_FLAG = 0x10000 };
#else
// What the program's file says.
enum { STACK = 0, STACK_FLAG = 0 };
#endif

void __use_thread_pointer(void) { slot = win32.TlsAlloc(); }

hidden int __set_thread_area(void *thread) {
	win32.TlsSetValue(slot, thread);
	return 0;
}

// A thread that this program did not begin: what listens to Ctrl-C, and whoever calls a library.
static void *adopted(void) {
	size_t keys = sizeof(void *) * PTHREAD_KEYS_MAX;
	struct pthread *thread = __block(sizeof *thread + keys);
	if (!thread) a_crash();
	thread->self = thread->next = thread->prev = thread;
	thread->tid = (int)win32.GetCurrentThreadId();
	thread->detach_state = DT_DETACHED;
	thread->locale = &libc.global_locale;
	thread->robust_list.head = &thread->robust_list.head;
	thread->tsd = (void **)(thread + 1);
	win32.TlsSetValue(slot, thread);
	return thread;
}

hidden uintptr_t __thread_pointer(void) {
	void *thread = win32.TlsGetValue(slot);
	return (uintptr_t)(thread ? thread : adopted());
}

typedef struct {
	int (*function)(void *);
	void *argument, *thread;
} Beginning;

// Windows begins threads with 53 bits of precision in the old unit, which long double is computed by.
static void full_precision(void) {
	static const uint16_t control = 0x37F;
	__asm__ volatile("fldcw %0" : : "m"(control));
}

static WINDOWS uint32_t begin(void *given) {
	Beginning beginning = *(Beginning *)given;
	full_precision();
	win32.TlsSetValue(slot, beginning.thread);
	__free_block(given);
	beginning.function(beginning.argument);
	return 0;
}

// As Linux' clone is called by pthread_create: `stack` is not used, Windows makes one.
hidden int __clone(int (*function)(void *), void *stack, int flags, void *argument, ...) {
	va_list others;
	va_start(others, argument);
	int *id = va_arg(others, int *);
	void *thread = va_arg(others, void *);
	va_end(others);
	Beginning *beginning = __block(sizeof *beginning);
	if (!beginning) return -ENOMEM;
	*beginning = (Beginning){function, argument, thread};
	uint32_t number = 0;
	Handle handle = win32.CreateThread(NULL, STACK, begin, beginning, SUSPENDED | STACK_FLAG, &number);
	if (!handle) {
		__free_block(beginning);
		return -EAGAIN;
	}
	*id = (int)number;
	win32.ResumeThread(handle);
	win32.CloseHandle(handle);
	return (int)number;
}

#ifdef LIBRARY
static struct pthread *first;  // of musl's list of threads; no thread of Windows' is this one
extern weak hidden FILE *volatile __stdout_used, *volatile __stderr_used;
static pthread_mutex_t creating = PTHREAD_MUTEX_INITIALIZER;

enum { NO_THREAD = 1, FROM_ADDRESS = 4, UNCHANGED = 2 };  // Windows' threads have numbers that end in two zero bits

static Handle own_module(void) {
	Handle module = NULL;
	win32.GetModuleHandleExW(FROM_ADDRESS | UNCHANGED, &slot, &module);
	return module;
}

int __begin_threads(void) {
	slot = win32.TlsAlloc();
	return slot != (uint32_t)-1;
}

// After musl has begun: who loads the library is a thread as others are, and any number of them may call it.
void __share_threads(void) {
	first = win32.TlsGetValue(slot);
	first->tid = NO_THREAD;
	first->tsd = __pthread_tsd_main;
	win32.TlsSetValue(slot, NULL);
	if (&__stdout_used && __stdout_used) __stdout_used->lock = 0;
	if (&__stderr_used && __stderr_used) __stderr_used->lock = 0;
	libc.threaded = 1;
	libc.need_locks = 1;
	libc.threads_minus_1 = 1;
}

// A thread has the library loaded until its very end, whatever the caller frees, and is listed beside `first`: who begins it
// may be one of the caller's, which ends before it does.
int pthread_create(pthread_t *restrict made, const pthread_attr_t *restrict attributes, void *(*function)(void *), void *restrict argument) {
	Handle module = NULL;
	if (!win32.GetModuleHandleExW(FROM_ADDRESS, &slot, &module)) return EAGAIN;
	pthread_mutex_lock(&creating);
	void *self = win32.TlsGetValue(slot);
	win32.TlsSetValue(slot, first);
	int failure = __pthread_create(made, attributes, function, argument);
	win32.TlsSetValue(slot, self);
	pthread_mutex_unlock(&creating);
	if (failure) win32.FreeLibrary(module);
	return failure;
}

// One of the caller's threads ends, or the library goes.
void __drop_thread(void) {
	struct pthread *thread = win32.TlsGetValue(slot);
	if (!thread) return;
	__pthread_tsd_run_dtors();
	win32.TlsSetValue(slot, NULL);
	__free_block(thread);
}

void __end_threads(void) { win32.TlsFree(slot); }
#endif

void __end_thread(void) {
	// As Linux does for the address that pthread_create names: whoever waits for the list of threads goes on.
	a_store(&__thread_list_lock, 0);
	__wake(&__thread_list_lock, -1, 0);
#ifdef LIBRARY
	// What musl knew of it is gone, or is its joiner's to free.
	win32.TlsSetValue(slot, NULL);
	win32.FreeLibraryAndExitThread(own_module(), 0);
#else
	win32.ExitThread(0);
#endif
	for (;;) a_crash();
}

hidden void __unmapself(void *base, size_t size) {
	__unmap(base, size);
	__end_thread();
}
