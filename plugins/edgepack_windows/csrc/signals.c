// Signals: those that the program sends itself, and what Windows has in their place.
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "ksigaction.h"
#include "win32.h"

enum { IN_PAGE_ERROR = (int)0xC0000006, CONTROL_C = 0 };

static struct k_sigaction actions[65];
static atomic_int listening;

#ifdef LIBRARY
enum { FATAL_APP_EXIT = 7 };

// The end of a process that cannot go on, as abort() of Windows' own programs makes it: nobody's handlers run.
void __stop(void) {
	__asm__ volatile("int $0x29" : : "c"(FATAL_APP_EXIT) : "memory");
	__builtin_unreachable();
}
#endif

#ifndef LIBRARY
// As Linux does, at once: ExitProcess would first run other libraries' code, for which a thread that is ending may have a lock.
hidden void __end_process(uint32_t code) {
	win32.TerminateProcess(win32.GetCurrentProcess(), code);
	__builtin_trap();
}
#endif

void __deliver(int number) {
	void (*handler)(int) = actions[number].handler;
	if (handler == SIG_IGN) return;
#ifdef LIBRARY
	if (handler == SIG_DFL && number == SIGPIPE) return;
	if (handler == SIG_DFL) __stop();
#else
	if (handler == SIG_DFL) __end_process(128 + (uint32_t)number);
#endif
	if (actions[number].flags & SA_RESETHAND) actions[number].handler = SIG_DFL;
	handler(number);
}

#ifdef LIBRARY
// A process's Ctrl-C and its exceptions are not a library's.
static void listen(void) {}
#else
static WINDOWS int on_control(uint32_t event) {
	int number = event == CONTROL_C ? SIGINT : SIGTERM;
	if (actions[number].handler == SIG_DFL) return 0;
	__deliver(number);
	return 1;
}

// A mapped file that became shorter, or a disk that went away.
static WINDOWS int32_t on_exception(ExceptionPointers *what) {
	if (what->record->code == (uint32_t)IN_PAGE_ERROR && actions[SIGBUS].handler) __deliver(SIGBUS);
	return 0;
}

static void listen(void) {
	if (atomic_exchange(&listening, 1)) return;
	win32.SetConsoleCtrlHandler(on_control, 1);
	win32.AddVectoredExceptionHandler(1, on_exception);
}
#endif

// Where Linux goes after a handler; here handlers are functions that are called.
hidden void __restore_rt() {}

long __signal_action(int number, const void *action, void *old) {
	if (number < 1 || number > 64) return -22;
	struct k_sigaction before = actions[number];
	if (action) {
		memcpy(&actions[number], action, sizeof before);
		listen();
	}
	if (old) memcpy(old, &before, sizeof before);
	return 0;
}
