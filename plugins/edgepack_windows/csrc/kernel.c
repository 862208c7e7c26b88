// What musl asks of Linux, asked of Windows. What is not here is not there (ENOSYS).
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kstat.h"
#include "win32.h"

HIDDEN long __plain_kernel(long, long, long, long, long, long, long);

static long on_path(const char *path, int (*act)(const Wide *)) {
	long failure;
	Wide *wide = __wide_path(path, &failure);
	if (!wide) return failure;
	failure = act(wide) ? 0 : __failed();
	__free_block(wide);
	return failure;
}

static int delete(const Wide *path) { return win32.DeleteFileW(path); }
static int make_folder(const Wide *path) { return win32.CreateDirectoryW(path, NULL); }

static long rename_file(const char *from, const char *to) {
	long failure;
	Wide *before = __wide_path(from, &failure);
	if (!before) return failure;
	Wide *after = __wide_path(to, &failure);
	if (after) failure = win32.MoveFileExW(before, after, 1) ? 0 : __failed();
	__free_block(before);
	__free_block(after);
	return failure;
}

static long in_parts(int file, const struct iovec *parts, int count, long (*act)(int, void *, size_t)) {
	long all = 0;
	for (int index = 0; index < count; index++) {
		if (!parts[index].iov_len) continue;
		long done = act(file, parts[index].iov_base, parts[index].iov_len);
		if (done < 0) return all ? all : done;
		all += done;
		if ((size_t)done < parts[index].iov_len) break;
	}
	return all;
}

static long read_part(int file, void *data, size_t size) { return __file_read(file, data, size); }
static long write_part(int file, void *data, size_t size) { return __file_write(file, data, size); }

static long may(const char *path, int wanted) {
	struct kstat status;
	long failure = __status_of(path, &status, 1);
	return failure ? failure : wanted & W_OK && !(status.st_mode & S_IWUSR) ? -EACCES : 0;
}

static long folder(char *place, size_t room) {
	Wide *wide = __block(LONGEST * sizeof(Wide));
	if (!wide) return -ENOMEM;
	char *made = win32.GetCurrentDirectoryW(LONGEST, wide) ? __narrow(wide, 1) : NULL;
	size_t size = made ? strlen(made) + 1 : 0;
	if (made && size <= room) memcpy(place, made, size);
	__free_block(wide);
	__free_block(made);
	return !made ? -ENOENT : size <= room ? (long)size : -ERANGE;
}

static long processors(size_t room, void *mask) {
	uint64_t own = 0, all;
	if (room < sizeof own || !win32.GetProcessAffinityMask(win32.GetCurrentProcess(), &own, &all)) return -EINVAL;
	memcpy(mask, &own, sizeof own);
	return sizeof own;
}

static long memory_of_system(struct sysinfo *info) {
	MemoryStatus status = {.size = sizeof status};
	memset(info, 0, sizeof *info);
	if (!win32.GlobalMemoryStatusEx(&status)) return __failed();
	info->totalram = status.total;
	info->freeram = status.free;
	info->mem_unit = 1;
	return 0;
}

static long on_files(long number, long a, long b, long c, long d) {
	switch (number) {
	case SYS_open: return __file_open((const char *)a, (int)b);
	case SYS_openat: return (int)a == AT_FDCWD ? __file_open((const char *)b, (int)c) : -ENOSYS;
	case SYS_close: return __file_close((int)a);
	case SYS_read: return __file_read((int)a, (void *)b, (size_t)c);
	case SYS_write: return __file_write((int)a, (const void *)b, (size_t)c);
	case SYS_pread64: return __file_read_at((int)a, (void *)b, (size_t)c, d);
	case SYS_pwrite64: return __file_write_at((int)a, (const void *)b, (size_t)c, d);
	case SYS_readv: return in_parts((int)a, (const struct iovec *)b, (int)c, read_part);
	case SYS_writev: return in_parts((int)a, (const struct iovec *)b, (int)c, write_part);
	case SYS_lseek: return __file_seek((int)a, b, (int)c);
	case SYS_fcntl: return __file_control((int)a, (int)b, c);
	case SYS_ioctl: return __file_terminal((int)a, b, (void *)c);
	case SYS_getdents64: return __file_list((int)a, (void *)b, (size_t)c);
	case SYS_fstat: return __status_of_file((int)a, (void *)b);
	case SYS_stat: return __status_of((const char *)a, (void *)b, 1);
	case SYS_lstat: return __status_of((const char *)a, (void *)b, 0);
	case SYS_newfstatat:
		if (d & AT_EMPTY_PATH && !*(const char *)b) return __status_of_file((int)a, (void *)c);
		return (int)a == AT_FDCWD ? __status_of((const char *)b, (void *)c, !(d & AT_SYMLINK_NOFOLLOW)) : -ENOSYS;
	case SYS_access: return may((const char *)a, (int)b);
	case SYS_rename: return rename_file((const char *)a, (const char *)b);
	case SYS_unlink: return on_path((const char *)a, delete);
	case SYS_mkdir: return on_path((const char *)a, make_folder);
	case SYS_readlink: return -EINVAL;
	case SYS_getcwd: return folder((char *)a, (size_t)b);
	case SYS_umask: return 022;
	case SYS_geteuid: return 0; // the owner of every file, as stat says
	}
	return -ENOSYS;
}

long __plain_kernel(long number, long a, long b, long c, long d, long e, long f) {
	switch (number) {
	case SYS_mmap: return __map((void *)a, (size_t)b, (int)c, (int)d, (int)e, f);
	case SYS_munmap: return __unmap((void *)a, (size_t)b);
	case SYS_mprotect: return __protect((void *)a, (size_t)b, (int)c);
	case SYS_madvise: return __advise((void *)a, (size_t)b, (int)c);
	case SYS_futex: return __futex((volatile int *)a, (int)b, (int)c, (const long *)d);
	case SYS_clock_gettime: return __clock((int)a, (long *)b);
	case SYS_nanosleep: return __sleep((const long *)a);
	case SYS_clock_nanosleep: return b ? -ENOSYS : __sleep((const long *)c);
	case SYS_exit: __end_thread();
#ifdef LIBRARY
	case SYS_exit_group: __stop();
#else
	case SYS_exit_group: __end_process((uint32_t)a);
#endif
	case SYS_getpid: return win32.GetCurrentProcessId();
	case SYS_gettid:
	case SYS_set_tid_address: return win32.GetCurrentThreadId();
	case SYS_tkill: __deliver((int)b); return 0;
	case SYS_tgkill: __deliver((int)c); return 0;
	case SYS_kill: __deliver((int)b); return 0;
	case SYS_rt_sigaction: return __signal_action((int)a, (const void *)b, (void *)c);
	case SYS_rt_sigprocmask:
		if (c) memset((void *)c, 0, (size_t)d);
		return 0;
	case SYS_set_robust_list:
	case SYS_sched_setaffinity: return 0;
	case SYS_sched_getaffinity: return processors((size_t)b, (void *)c);
	case SYS_sysinfo: return memory_of_system((struct sysinfo *)a);
	case SYS_sched_yield: win32.Sleep(0); return 0;
	}
	return on_files(number, a, b, c, d);
}

// In a program with sockets theirs comes first, and asks this one for the rest.
weak_alias(__plain_kernel, __kernel);
