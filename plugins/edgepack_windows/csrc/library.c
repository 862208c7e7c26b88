// What Windows calls when the library is loaded, when a thread ends and when it goes. Nothing of it stays in the process.
#include "libc.h"
#include "mode.h"
#include "start.c"

enum { GOES, LOADED, THREAD_BEGINS, THREAD_ENDS };

static int begin(void) {
	if (!__make_heap()) return 0;
	if (!__begin_threads()) {
		__drop_heap();
		return 0;
	}
	Wide *environment = win32.GetEnvironmentStringsW();
	size_t variables = variables_of(environment, NULL);
	char **all = __block((variables + 1 + AUXILIARY) * sizeof *all);
	if (!all) __stop();
	variables_of(environment, all);
	win32.FreeEnvironmentStringsW(environment);
	static uint64_t secret[2];
	fill_secret(secret);
	const size_t facts[AUXILIARY] = {AT_PAGESZ, 4096, AT_RANDOM, (size_t)secret, AT_EXECFN, (size_t)"", AT_NULL, 0};
	memcpy(all + variables + 1, facts, sizeof facts);
	__init_libc(all, NULL);
	__share_threads();
	__libc_start_init();
	return 1;
}

static void end(void) {
	__funcs_on_exit();
	__libc_exit_fini();
	__drop_thread();
	__drop_files();
	__drop_maps();
	__end_threads();
	__drop_heap();
}

// The name by which the linker knows where it begins. `process_ends`: the other threads are gone already, wherever they were.
WINDOWS HIDDEN int _start(Handle module, uint32_t reason, void *process_ends) {
	Mode before = enter_mode();
	int done = 1;
	if (reason == LOADED) done = begin();
	else if (reason == THREAD_ENDS) __drop_thread();
	else if (reason == GOES && !process_ends) end();
	set_mode(before);
	return done;
}
