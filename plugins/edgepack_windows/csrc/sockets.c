// Sockets by small numbers: Windows' own, and what a server asks of Linux besides. Linked where something calls socket(): its
// `__kernel` takes the place of the one in kernel.c, and leaves to that what is not about sockets.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "ksigaction.h"
#include "kstat.h"
#include "syscall.h"
#include "ws2.h"

enum { FIRST = 1024, SOCKETS = 1 << 16 };  // numbers that no file has
enum { FAMILY_6 = 23, LEVEL = 0xFFFF, EXCLUSIVE = ~4, VERSION_6_ONLY = 27, VERSION = 0x202, MOST_QUEUED = 200 };
enum { NONBLOCKING = (int)0x8004667E, PEEK = 2, WOULD_BLOCK = 10035 };
enum { P_ERROR = 1, P_HANGUP = 2, P_INVALID = 4, P_WRITE = 0x10, P_READ = 0x300 };
enum { MOST_AT_ONCE = 1 << 20, MILLISECONDS_QUIET = 10 };
#define NONE ((Socket)-1)
#define LOOPBACK 0x0100007F  // 127.0.0.1

HIDDEN long __plain_kernel(long, long, long, long, long, long, long);

static _Atomic(Socket) sockets[SOCKETS];  // 0: free

static const struct { uint16_t code; uint8_t number; } known[] = {
	{10004, EINTR}, {10009, EBADF}, {10013, EACCES}, {10014, EFAULT}, {10022, EINVAL}, {10024, EMFILE}, {WOULD_BLOCK, EAGAIN},
	{10036, EINPROGRESS}, {10037, EALREADY}, {10038, ENOTSOCK}, {10040, EMSGSIZE}, {10042, ENOPROTOOPT},
	{10043, EPROTONOSUPPORT}, {10045, EOPNOTSUPP}, {10047, EAFNOSUPPORT}, {10048, EADDRINUSE}, {10049, EADDRNOTAVAIL},
	{10050, ENETDOWN}, {10051, ENETUNREACH}, {10052, ENETRESET}, {10053, ECONNABORTED}, {10054, ECONNRESET}, {10055, ENOBUFS},
	{10056, EISCONN}, {10057, ENOTCONN}, {10058, EPIPE}, {10060, ETIMEDOUT}, {10061, ECONNREFUSED}, {10064, EHOSTDOWN},
	{10065, EHOSTUNREACH}, {10091, ENETDOWN}, {10093, ENETDOWN},
};

static long failed(void) {
	int code = ws2.WSAGetLastError();
	for (size_t index = 0; index < sizeof known / sizeof *known; index++)
		if (known[index].code == code) return -(long)known[index].number;
	return __errno_of((uint32_t)code);
}

static Socket socket_of(long number) {
	Socket found = number >= FIRST && number < FIRST + SOCKETS ? atomic_load(&sockets[number - FIRST]) : 0;
	return found ? found : NONE;
}

static long set_blocking(Socket socket, int blocking) {
	uint32_t value = !blocking;
	return ws2.ioctlsocket(socket, NONBLOCKING, &value) ? failed() : 0;
}

static long numbered(Socket made, int flags) {
	if (made == NONE) return failed();
	long failure = set_blocking(made, !(flags & SOCK_NONBLOCK));
	for (int index = 0; !failure && index < SOCKETS; index++) {
		Socket free = 0;
		if (atomic_compare_exchange_strong(&sockets[index], &free, made)) return FIRST + index;
	}
	ws2.closesocket(made);
	return failure ? failure : -EMFILE;
}

static long open_socket(int family, int type, int protocol) {
	static atomic_int begun;
	static uint64_t said[64];
	const uint32_t no = 0;
	// Unix sockets are their owner's by rights that this program cannot give there.
	if (family != AF_INET && family != AF_INET6) return -EAFNOSUPPORT;
	if (!atomic_exchange(&begun, 1) && ws2.WSAStartup(VERSION, said)) return -ENETDOWN;
	Socket made = ws2.socket(family == AF_INET6 ? FAMILY_6 : AF_INET, type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC), protocol);
	// As Linux: who listens on all of IPv6's addresses listens on IPv4's, too.
	if (made != NONE && family == AF_INET6) ws2.setsockopt(made, IPPROTO_IPV6, VERSION_6_ONLY, &no, sizeof no);
	return numbered(made, type);
}

static long close_socket(int number) {
	Socket socket = atomic_exchange(&sockets[number - FIRST], 0);
	return !socket ? -EBADF : ws2.closesocket(socket) ? failed() : 0;
}

static long on_address(int (WINDOWS *act)(Socket, const void *, int), Socket socket, const void *given, size_t size) {
	struct sockaddr_in6 address;
	if (size > sizeof address || size < sizeof(struct sockaddr_in)) return -EINVAL;
	memcpy(&address, given, size);
	if (address.sin6_family == AF_INET6) address.sin6_family = FAMILY_6;
	return act(socket, &address, (int)size) ? failed() : 0;
}

// As Linux: the address of all is on the way there this machine's.
static long connect_to(Socket socket, const void *given, size_t size) {
	union {
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	} address = {0};
	if (size > sizeof address) return -EINVAL;
	memcpy(&address, given, size);
	if (address.four.sin_family == AF_INET && !address.four.sin_addr.s_addr) address.four.sin_addr.s_addr = LOOPBACK;
	if (address.six.sin6_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&address.six.sin6_addr)) address.six.sin6_addr.s6_addr[15] = 1;
	return on_address(ws2.connect, socket, &address, size);
}

static long own_address(Socket socket, void *address, socklen_t *room) {
	struct sockaddr_in6 found;
	int size = sizeof found;
	if (ws2.getsockname(socket, &found, &size)) return failed();
	if (found.sin6_family == FAMILY_6) found.sin6_family = AF_INET6;
	memcpy(address, &found, (socklen_t)size < *room ? (size_t)size : *room);
	*room = (socklen_t)size;
	return 0;
}

static long set_option(Socket socket, int level, int name, const void *value, int size) {
	// To listen again where connections of before are still ending: Windows allows it anyway, and under Linux' name it would let
	// any other program take the port over.
	if (level == SOL_SOCKET && name == SO_REUSEADDR) level = LEVEL, name = EXCLUSIVE;
	else if (level != IPPROTO_TCP) return -ENOPROTOOPT;
	return ws2.setsockopt(socket, level, name, value, size) ? failed() : 0;
}

static long receive(Socket socket, void *data, size_t size, int flags) {
	int got = ws2.recv(socket, data, size < MOST_AT_ONCE ? (int)size : MOST_AT_ONCE, flags & MSG_PEEK ? PEEK : 0);
	return got < 0 ? failed() : got;
}

static long send_some(Socket socket, const void *data, size_t size) {
	int sent = ws2.send(socket, data, size < MOST_AT_ONCE ? (int)size : MOST_AT_ONCE, 0);
	return sent < 0 ? failed() : sent;
}

// Two sockets that speak to each other alone: Windows waits for sockets, and for nothing else with them. The end that is written
// to waits, whatever is asked: while another thread writes it would refuse, and who waits for the other end were not woken.
static long make_pipe(int *ends, int flags) {
	struct sockaddr_in places[2];
	long failure = 0;
	ends[0] = ends[1] = -1;
	for (int end = 0; !failure && end < 2; end++) {
		socklen_t size = sizeof places[end];
		places[end] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = LOOPBACK};
		long made = open_socket(AF_INET, SOCK_DGRAM | (end ? 0 : flags & O_NONBLOCK), 0);
		if (made < 0) failure = made;
		else ends[end] = (int)made, failure = on_address(ws2.bind, socket_of(made), &places[end], size);
		if (!failure) failure = own_address(socket_of(made), &places[end], &size);
	}
	for (int end = 0; !failure && end < 2; end++)
		failure = on_address(ws2.connect, socket_of(ends[end]), &places[!end], sizeof *places);
	for (int end = 0; failure && end < 2; end++)
		if (ends[end] >= 0) close_socket(ends[end]);
	return failure;
}

// Windows says "hung up" of a client that has said all it has to say, which Linux calls something to read.
static short happened(const Polled *polled, short wanted) {
	short found = 0;
	char byte;
	if (polled->happened & P_READ) found |= POLLIN;
	if (polled->happened & P_WRITE) found |= POLLOUT;
	if (polled->happened & P_INVALID) found |= POLLNVAL;
	if (polled->happened & (P_ERROR | P_HANGUP)) {
		found |= POLLIN | POLLRDHUP;
		int over = polled->happened & P_ERROR;
		if (!over && ws2.recv(polled->socket, &byte, 1, PEEK) < 0) over = ws2.WSAGetLastError() != WOULD_BLOCK;
		if (over) found |= POLLERR | POLLHUP;
	}
	return found & (wanted | POLLERR | POLLHUP | POLLNVAL);
}

static int64_t milliseconds_now(void) {
	long time[2];
	__clock(CLOCK_MONOTONIC, time);
	return time[0] * 1000 + time[1] / 1000000;
}

// One look at those that are not quiet; how many have something to say.
static long look(struct pollfd *asked, size_t count, Polled *polled, char *quiet, int patience) {
	size_t used = 0;
	for (size_t index = 0; index < count; index++) {
		short events = asked[index].events;
		asked[index].revents = 0;
		if (asked[index].fd < 0 || quiet[index]) continue;
		int16_t wanted = (int16_t)((events & POLLIN ? P_READ : 0) | (events & POLLOUT ? P_WRITE : 0));
		polled[used++] = (Polled){socket_of(asked[index].fd), wanted, 0};
	}
	if (!used) return win32.Sleep((uint32_t)patience), 0;
	if (ws2.WSAPoll(polled, (uint32_t)used, patience) < 0) return failed();
	long found = 0;
	used = 0;
	for (size_t index = 0; index < count; index++) {
		if (asked[index].fd < 0 || quiet[index]) continue;
		const Polled *one = &polled[used++];
		asked[index].revents = happened(one, asked[index].events);
		found += !!asked[index].revents;
		quiet[index] = one->happened && !asked[index].revents;
	}
	return found;
}

// Who reports what nobody wants to know would end every wait at once: such are asked now and then.
static long wait_for(struct pollfd *asked, size_t count, int patience) {
	int64_t end = milliseconds_now() + patience;
	Polled *polled = __block(count * (sizeof *polled + 1) + 1);
	if (!polled) return -ENOMEM;
	char *quiet = (char *)(polled + count);
	long found;
	for (;;) {
		int64_t left = patience < 0 ? -1 : end - milliseconds_now();
		if (patience >= 0 && left < 0) left = 0;
		int any = count && memchr(quiet, 1, count), most = any && (left < 0 || left > MILLISECONDS_QUIET);
		found = look(asked, count, polled, quiet, most ? MILLISECONDS_QUIET : (int)left);
		if (found || (patience >= 0 && milliseconds_now() >= end)) break;
		if (any) memset(quiet, 0, count);
	}
	__free_block(polled);
	return found;
}

// The window is closed, the user leaves, the machine is switched off: the program ends when this returns, or some seconds later.
static WINDOWS int on_end(uint32_t event) {
	enum { CLOSED = 2 };
	struct k_sigaction action;
	__signal_action(SIGTERM, NULL, &action);
	if (event < CLOSED || action.handler == SIG_DFL || action.handler == SIG_IGN) return 0;
	__deliver(SIGTERM);
	win32.Sleep((uint32_t)INFINITE_);
	return 1;
}

static long answer_signals(int number, const void *action, void *old) {
	static atomic_int listening;
	long failure = __signal_action(number, action, old);
	// Asked before the other one, as the later.
	if (!failure && action && !atomic_exchange(&listening, 1)) win32.SetConsoleCtrlHandler(on_end, 1);
	return failure;
}

// Who else may read or write a file stands in lists that nothing here reads: nothing is said of others.
static long status_of_file(int file, struct kstat *status) {
	long failure = __status_of_file(file, status);
	if (!failure) status->st_mode &= ~(mode_t)077;
	return failure;
}

static long on_socket(long number, Socket socket, long a, long b, long c, long d, long e) {
	switch (number) {
	case SYS_close: return close_socket((int)a);
	case SYS_bind: return on_address(ws2.bind, socket, (const void *)b, (size_t)c);
	case SYS_connect: return connect_to(socket, (const void *)b, (size_t)c);
	// A longer queue is asked for by a number below zero.
	case SYS_listen: return ws2.listen(socket, (int)(b > MOST_QUEUED ? -b : b)) ? failed() : 0;
	case SYS_accept4: return b ? -EINVAL : numbered(ws2.accept(socket, NULL, NULL), (int)d);
	case SYS_read: return receive(socket, (void *)b, (size_t)c, 0);
	case SYS_write: return send_some(socket, (const void *)b, (size_t)c);
	case SYS_recvfrom: return e ? -EINVAL : receive(socket, (void *)b, (size_t)c, (int)d);
	case SYS_sendto: return e ? -EINVAL : send_some(socket, (const void *)b, (size_t)c);
	case SYS_shutdown: return ws2.shutdown(socket, (int)b) ? failed() : 0;
	case SYS_getsockname: return own_address(socket, (void *)b, (socklen_t *)c);
	case SYS_setsockopt: return set_option(socket, (int)b, (int)c, (const void *)d, (int)e);
	case SYS_fcntl: return b == F_SETFL ? set_blocking(socket, !(c & O_NONBLOCK)) : 0;
	}
	return -ENOSYS;
}

long __kernel(long number, long a, long b, long c, long d, long e, long f) {
	switch (number) {
	case SYS_socket: return open_socket((int)a, (int)b, (int)c);
	case SYS_pipe2: return make_pipe((int *)a, (int)b);
	case SYS_poll: return wait_for((struct pollfd *)a, (size_t)b, (int)c);
	case SYS_fstat: return status_of_file((int)a, (struct kstat *)b);
	case SYS_rt_sigaction: return answer_signals((int)a, (const void *)b, (void *)c);
	case SYS_close:
	case SYS_read:
	case SYS_write:
	case SYS_fcntl:
		if (socket_of(a) == NONE) break;
		return on_socket(number, socket_of(a), a, b, c, d, e);
	case SYS_bind:
	case SYS_connect:
	case SYS_listen:
	case SYS_accept4:
	case SYS_recvfrom:
	case SYS_sendto:
	case SYS_shutdown:
	case SYS_getsockname:
	case SYS_setsockopt: return socket_of(a) == NONE ? -EBADF : on_socket(number, socket_of(a), a, b, c, d, e);
	}
	return __plain_kernel(number, a, b, c, d, e, f);
}

// In the place of musl's, so that who asks for a socket gets this file.
int socket(int domain, int type, int protocol) { return (int)syscall(SYS_socket, domain, type, protocol); }
