// Threads: Windows' own, with its stacks; what musl knows of each lies in a slot of Windows'.
#include <stdarg.h>
#include <string.h>

#include "pthread_impl.h"
#include "win32.h"

static uint32_t slot;

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
	Handle handle = win32.CreateThread(NULL, 0, begin, beginning, SUSPENDED, &number);
	if (!handle) {
		__free_block(beginning);
		return -EAGAIN;
	}
	*id = (int)number;
	win32.ResumeThread(handle);
	win32.CloseHandle(handle);
	return (int)number;
}

void __end_thread(void) {
	// As Linux does for the address that pthread_create names: whoever waits for the list of threads goes on.
	a_store(&__thread_list_lock, 0);
	__wake(&__thread_list_lock, -1, 0);
	win32.ExitThread(0);
	for (;;) a_crash();
}

hidden void __unmapself(void *base, size_t size) {
	__unmap(base, size);
	__end_thread();
}
