/* System calls of libembed, each of which Android's filter lets apps make: bionic's libc/SYSCALLS.TXT, SECCOMP_ALLOWLIST_COMMON.TXT and
 * SECCOMP_ALLOWLIST_APP.TXT less SECCOMP_BLOCKLIST_*.TXT. Those that newer processors do not have are in the lists for x86-64, too. */
#pragma once
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static const int ANDROID_ALLOWS[] = {
    SYS_openat, SYS_read, SYS_pread64, SYS_write, SYS_writev, SYS_close, SYS_lseek, SYS_fcntl, SYS_ioctl, SYS_fstat, SYS_newfstatat, SYS_getdents64,
    SYS_readlinkat, SYS_getcwd, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_mremap, SYS_futex, SYS_clone, SYS_exit, SYS_exit_group,
    SYS_rt_sigprocmask, SYS_gettid, SYS_sched_getaffinity, SYS_getrandom,
#ifdef __x86_64__
    SYS_open, SYS_stat, SYS_readlink,
#endif
};

/* What is not in the list kills the process; 0 where Linux takes the filter. */
static int allow_only_what_android_allows(void) {
    enum { COUNT = sizeof ANDROID_ALLOWS / sizeof *ANDROID_ALLOWS };
    struct sock_filter filter[COUNT + 3] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (int at = 0; at < COUNT; at++)
        filter[at + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)ANDROID_ALLOWS[at], (unsigned char)(COUNT - at), 0);
    filter[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    filter[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
