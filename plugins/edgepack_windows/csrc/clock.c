// Time.
#include <errno.h>
#include <time.h>

#include "win32.h"

enum { TICKS = 10000000 };  // of Windows in a second

static long given(long *time, uint64_t ticks) {
	time[0] = (long)(ticks / TICKS);
	time[1] = (long)(ticks % TICKS) * 100;
	return 0;
}

long __clock(int which, long *time) {
	uint64_t ticks, unused[2], kernel, user;
	int64_t count, frequency;
	switch (which) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
		win32.GetSystemTimePreciseAsFileTime(&ticks);
		return given(time, ticks - (uint64_t)11644473600 * TICKS);
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
		win32.QueryPerformanceCounter(&count);
		win32.QueryPerformanceFrequency(&frequency);
		time[0] = count / frequency;
		time[1] = (count % frequency) * 1000000000 / frequency;
		return 0;
	case CLOCK_PROCESS_CPUTIME_ID:
		if (!win32.GetProcessTimes(win32.GetCurrentProcess(), unused, unused + 1, &kernel, &user)) return __failed();
		return given(time, kernel + user);
	case CLOCK_THREAD_CPUTIME_ID:
		if (!win32.GetThreadTimes(win32.GetCurrentThread(), unused, unused + 1, &kernel, &user)) return __failed();
		return given(time, kernel + user);
	}
	return -EINVAL;
}

static uint32_t milliseconds(const long *time) {
	if (time[0] > 4000000) return 4000000000u;
	return (uint32_t)(time[0] * 1000 + (time[1] + 999999) / 1000000);
}

long __sleep(const long *time) {
	win32.Sleep(milliseconds(time));
	return 0;
}

// What musl's locks wait by; who would be moved from one place to another (FUTEX_REQUEUE) wakes up instead, and waits anew.
long __futex(volatile int *place, int operation, int value, const long *timeout) {
	enum { WAIT, WAKE, REQUEUE = 3, OPERATION = 127 };
	switch (operation & OPERATION) {
	case WAIT:
		if (*place != value) return -EAGAIN;
		if (win32.WaitOnAddress(place, &value, sizeof value, timeout ? milliseconds(timeout) : (uint32_t)INFINITE_)) return 0;
		return __failed();
	case WAKE:
		if (value > 1) win32.WakeByAddressAll((void *)place);
		else win32.WakeByAddressSingle((void *)place);
		return 1;
	case REQUEUE:
		win32.WakeByAddressSingle((void *)place);
		return 1;
	}
	return -ENOSYS;
}
