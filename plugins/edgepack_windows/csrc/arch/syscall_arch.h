// In the place of musl's own: what musl asks of Linux is a function, kernel.c, in the place of an instruction.
#define __SYSCALL_LL_E(x) (x)
#define __SYSCALL_LL_O(x) (x)

__attribute__((__visibility__("hidden"))) long __kernel(long, long, long, long, long, long, long);

static __inline long __syscall0(long n) { return __kernel(n, 0, 0, 0, 0, 0, 0); }
static __inline long __syscall1(long n, long a) { return __kernel(n, a, 0, 0, 0, 0, 0); }
static __inline long __syscall2(long n, long a, long b) { return __kernel(n, a, b, 0, 0, 0, 0); }
static __inline long __syscall3(long n, long a, long b, long c) { return __kernel(n, a, b, c, 0, 0, 0); }
static __inline long __syscall4(long n, long a, long b, long c, long d) { return __kernel(n, a, b, c, d, 0, 0); }
static __inline long __syscall5(long n, long a, long b, long c, long d, long e) { return __kernel(n, a, b, c, d, e, 0); }
static __inline long __syscall6(long n, long a, long b, long c, long d, long e, long f) {
	return __kernel(n, a, b, c, d, e, f);
}

#define IPC_64 0
