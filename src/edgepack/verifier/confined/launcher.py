"""Runs one program within limits, in namespaces of its own where that is asked; ends it, and all that it started.

A script that a Python of its own runs (``python -I -S launcher.py TASK``) and that imports little: a build starts it dozens of
times. It stays outside, where the program cannot reach it, and watches. In namespaces the first process is a copy of it, which
lays out the files, starts the program, reaps whatever is left to it, and ends with the program: then the kernel ends everything
else in there. Without namespaces orphans become its own children. Its parent's end is its own.
"""

import _signal  # type: ignore[import-not-found]
import ctypes
import marshal
import os
import resource
import select
import sys
import time
from typing import Any, NoReturn

INT, KILL, PIPE, TERM, STOP, XFSZ = 2, 9, 13, 15, 19, 25
DUMPABLE, PDEATHSIG, KEEPCAPS, CAPBSET_DROP, SUBREAPER, NO_NEW_PRIVS, CAP_AMBIENT = 4, 1, 8, 24, 36, 38, 47
ANY_FILE, ANY_PROCESS, ANY_USER = 1, 5, 7
"""Capabilities: to files as root has them, to end other users' processes, to become another user."""
NEW_NS, NEW_UTS, NEW_IPC, NEW_NET = 0x00020000, 0x04000000, 0x08000000, 0x40000000
NEW_USER, NEW_PID = 0x10000000, 0x20000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
KEPT = ((8, NOEXEC), (1024, 1024), (2048, 2048), (4096, 1 << 21))
"""What ``statvfs`` says of a mount → what ``mount`` calls it: who forbade it outside forbids it inside."""
DETACH, HERE, RECURSIVE = 2, -100, 0x8000
MOUNT_SETATTR = 442
"""Of Linux 5.12; the number is the same on every processor."""
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "armv7l": 218, "ppc64le": 203, "s390x": 217}
COMMON = (425, 447)
"""io_uring_setup and memfd_secret, which have one number everywhere."""
MANY = (102, 117, 393, 395, 399)
"""Where one call stands for all of sockets, and one for all of System V's; then semget, shmget and msgget."""
REFUSED = {
    0xC000003E: (248, 249, 250, 278, 298, 319, 321, 323, 29, 64, 68),  # x86_64
    0x40000003: (286, 287, 288, 316, 336, 356, 357, 374, *MANY),  # i386
    0xC00000B7: (217, 218, 219, 75, 241, 279, 280, 282, 190, 194, 186),  # aarch64
    0x40000028: (309, 310, 311, 343, 364, 385, 386, 388, 299, 307, 303),  # arm
    0xC00000F3: (217, 218, 219, 75, 241, 279, 280, 282, 190, 194, 186),  # riscv64
    0xC0000015: (269, 270, 271, 285, 319, 360, 361, 364, *MANY),  # ppc64le
    0x80000016: (278, 279, 280, 309, 331, 350, 351, 355, *MANY),  # s390x
}
"""Processor, as the kernel's audit calls it → add_key, request_key, keyctl, vmsplice, perf_event_open, memfd_create, bpf, userfaultfd,
semget, shmget and msgget there. Keys are the user's own, whatever namespaces there are; the others are memory that is in no process's pages, or
are needed by no program that embeds text."""
SOCKET = {
    0xC000003E: (41, 54),
    0x40000003: (359, 366),
    0xC00000B7: (198, 208),
    0x40000028: (281, 294),
    0xC00000F3: (198, 208),
    0xC0000015: (326, 339),
    0x80000016: (359, 366),
}
"""Processor → socket and setsockopt there."""
OF_SOCKETS, BUFFERS = 1, (7, 8, 32, 33)
"""SOL_SOCKET; SO_SNDBUF, SO_RCVBUF, and what root may set: with them a socket holds megabytes."""
FAMILIES = (1, 2, 10, 16)
"""Of sockets: UNIX, INET, INET6 and NETLINK, which namespaces keep apart; a virtual machine's (VSOCK) lead out of them."""
SECCOMP, FILTER = 22, 2
NO_SUCH_CALL, NO_SUCH_FAMILY, NO_SUCH_OPTION = (0x00050000 | each for each in (38, 97, 92))
ALLOWED = 0x7FFF0000
ARGUMENTS = 16 if sys.byteorder == "little" else 20
"""Where a call's arguments stand, eight bytes each."""
NOT_X32 = ~0x40000000 & 0xFFFFFFFF
LOAD, AND, EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06
NOBODY = 65534
CAPABILITIES = 64
HIGHEST_USER, USERS = 1 << 30, 10_000
"""Users that a root's programs are, one each: the numbers below the first, which systems give to nobody."""
BESIDE = 16
"""Processes that the kernel allows beside what is allowed, so that it is seen that there are too many."""
SCRATCH_FILES = 65536
"""That /tmp may have: each takes memory beside its content."""
COUNTED = (b"SUnreclaim:", b"PageTables:", b"SecPageTables:", b"KernelStack:", b"Shmem:")
ROOM = (b"MemAvailable:", b"SwapFree:", b"AnonPages:")
SOONEST, LATEST = 0.02, 0.25
"""Seconds between two looks at what runs."""
LAST = 10.0
"""Seconds that are waited for what was killed: a process in an uninterruptible sleep does not end."""

Task = dict[str, Any]


class Process:
    """A process by what /proc/PID/stat says: resident pages, ticks of a processor."""

    def __init__(self, number: str) -> None:
        with open(f"/proc/{number}/stat", "rb") as stream:
            words = stream.read().rpartition(b")")[2].split()
        self.number, self.parent, self.threads = int(number), int(words[1]), int(words[17])
        self.used = int(words[11]) + int(words[12])
        self.ended = words[0] == b"Z"
        """Also where only the first thread has, and others have what it had."""

    def memory(self) -> tuple[int, int]:
        """Resident pages, and those of them that are of no file and nobody else's."""
        place = f"/proc/{self.number}"
        places = [place]
        try:
            if self.ended and self.threads > 1:
                # The youngest first: each has all that the process has, and the others may take turns in ending.
                places = [f"{place}/task/{each}" for each in reversed(os.listdir(f"{place}/task"))]
        except OSError:  # it has just ended
            pass
        for each in places:
            try:
                with open(f"{each}/statm", "rb") as stream:
                    _, resident, shared, *_ = map(int, stream.read().split())
            except OSError:
                continue
            if resident:
                return resident, resident - shared
        return 0, 0


FULL = (28, 122)
"""What the system says of a disk, and of a quota."""
ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT
PIECE = 1 << 16
libc = ctypes.CDLL(None, use_errno=True)
asked_to_end: list[bool] = []


def call(name: str, *arguments: int | str | bytes | None) -> int:
    """A function of the C library. Raises ``OSError``."""
    words = [os.fsencode(each) if isinstance(each, str) else each for each in arguments]
    done = int(
        getattr(libc, name)(*(ctypes.c_long(each) if isinstance(each, int) else each for each in words))
    )
    if done < 0:
        code = ctypes.get_errno()
        said = " ".join([name, *(each for each in arguments if isinstance(each, str))])
        raise OSError(code, f"{said}: {os.strerror(code)}")
    return done


class Output:
    """Pipes into files that the program never gets hold of: it could have them take more of the disk than they are long."""

    def __init__(self, most: int) -> None:
        self.limit = most
        self.pipes = {file: os.pipe() for file in (1, 2)}
        self.places = {reader: file for file, (reader, _) in self.pipes.items()}
        self.written = {1: 0, 2: 0}

    def give(self) -> None:
        """Have the child write there, which calls this."""
        for file, (reader, writer) in self.pipes.items():
            os.close(reader)
            os.dup2(writer, file)
            os.close(writer)

    def take(self) -> None:
        for reader, writer in self.pipes.values():
            os.close(writer)
            os.set_blocking(reader, False)

    def copy(self, reader: int) -> bool:
        """Copy what is there, at most a piece; whether more may come."""
        try:
            piece = os.read(reader, PIECE)
        except BlockingIOError:
            return True
        file, at = self.places[reader], 0
        while at < len(piece):
            at += os.write(file, piece[at:])
        self.written[file] += len(piece)
        return bool(piece)

    def copy_rest(self) -> None:
        """Copy what stands in the pipes when nobody writes to them any more."""
        for reader, file in self.places.items():
            before = -1
            while self.written[file] != before and not self.too_much():
                before = self.written[file]
                self.copy(reader)

    def too_much(self) -> bool:
        return any(each >= self.limit for each in self.written.values())


def main(file: str) -> None:
    """Run the task, and write what became of it into the file that it names."""
    started = time.monotonic()
    with open(file, "rb") as stream:
        task: Task = marshal.load(stream)
    if task["kind"] != "none":  # else it is needed to end the others
        call("prctl", PDEATHSIG, KILL)
    if os.getppid() != task["parent"]:
        os._exit(1)
    # A terminal's signals are for who started this, and says when to end: what is stopped or gone looks after nobody.
    os.setpgid(0, 0)
    libc.signal(INT, None)
    if task["kind"] == "none":
        _signal.signal(TERM, lambda *_: asked_to_end.append(True))
    call("prctl", SUBREAPER, 1)
    reader, writer = os.pipe()
    output = Output(task["limits"]["output"])
    try:
        if task["kind"] == "namespaces":
            enter_user_namespace()
        child = os.fork()
    except OSError as error:
        finish(task, {"failed": str(error)})
        return
    if child == 0:
        os.close(reader)
        output.give()
        as_child(task, writer)
    os.close(writer)
    output.take()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)  # Who writes to the program learns that nobody reads.
    try:
        stopped = watch(child, started, output, task)
        ended = reap(child, killed=stopped is not None)
        output.copy_rest()
    except OSError as error:
        reap(child, killed=True)
        finish(task, {"failed": f"write its output: {error.strerror}", "full": error.errno in FULL})
        return
    if stopped is None and output.too_much():
        stopped = "output"
    finish(task, {**ended, **said(reader), "stopped": stopped})


def enter_user_namespace() -> None:
    """Become nobody in a namespace of users, and have the next child be the first process of another."""
    user, group = os.geteuid(), os.getegid()
    call("unshare", NEW_USER | NEW_PID)
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{NOBODY} {user} 1"),
        ("gid_map", f"{NOBODY} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as stream:
            stream.write(line)


def as_child(task: Task, writer: int) -> NoReturn:
    """The first process: the program's parent in namespaces, else the program itself. It writes lines to ``writer``."""
    try:
        call("prctl", PDEATHSIG, KILL)
        if task["kind"] != "namespaces":
            become(task, writer)
        lay_out(task)
        give_up_privileges()
        call("prctl", DUMPABLE, 0)  # What it holds of the world outside is not to be read.
        hide_words()
    except OSError as error:
        tell(writer, "failed", str(error))
        os._exit(1)
    program = os.fork()
    if program == 0:
        become(task, writer)
    libc.signal(INT, ctypes.c_void_p(1))
    for each in (0, 1, 2):
        os.close(each)
    while True:
        ended, status, used = os.wait3(0)
        if ended == program and not os.WIFSTOPPED(status):  # as who is traced by its parent does
            tell(writer, "ended", f"{status} {used.ru_maxrss}")
            os._exit(0)


def become(task: Task, writer: int) -> NoReturn:
    """Execute the program, within its limits."""
    limits = task["limits"]
    try:
        os.setsid()
        call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
        refuse_calls()
    except OSError as error:
        if task["kind"] != "none":
            tell(writer, "failed", str(error))
            os._exit(1)
    try:
        with open("/proc/self/oom_score_adj", "w") as stream:
            stream.write("1000")
    except OSError:
        pass
    for each in (INT, PIPE, XFSZ):
        libc.signal(each, None)
    if task["kind"] == "none" and os.geteuid() == 0:
        leave_root(limits["processes"])
    for kind, most in limits["each"].items():
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    words = [*task["before"], *task["words"]]
    try:
        os.chdir(task["directory"])
        os.execvpe(words[0], words, task["environment"])
    except OSError as error:
        tell(writer, "not started", str(error.strerror))
    except ValueError as error:  # a NUL in a word
        tell(writer, "not started", str(error))
    os._exit(127)


def tell(writer: int, what: str, how: str) -> None:
    os.write(writer, f"{what}\t{how}\n".encode(errors="replace"))


def said(reader: int) -> Task:
    """Messages of the first process, in a file that nobody writes to any more."""
    os.set_blocking(reader, False)
    try:
        lines = os.read(reader, 65536).decode(errors="replace").splitlines()
    except BlockingIOError:  # what was killed has not ended
        lines = []
    found: Task = {}
    for what, _, how in (line.partition("\t") for line in lines):
        if what == "ended":
            status, peak = how.split()
            found |= {"code": os.waitstatus_to_exitcode(int(status)), "peak": int(peak) * 1024}
        else:
            found[what] = how
    return found


def watch(child: int, started: float, output: Output, task: Task) -> str | None:
    """Wait for the child's end; which limit was passed before, or that the parent is no more."""
    ends, limits = ending(child, output), task["limits"]
    pause, idle, gone = SOONEST, idleness(), disappearance()
    while True:
        left = started + limits["seconds"] - time.monotonic()
        if ends(max(0.0, min(pause, left))):
            return None
        if left <= 0:
            return "time"
        if passed := "output" if output.too_much() else passed_limit(child, limits, idle, gone):
            return passed
        if asked_to_end or os.getppid() != task["parent"]:
            return "parent"
        pause = min(2 * pause, LATEST)


def ending(child: int, output: Output) -> Any:
    """A function that copies output for so many seconds, or until the child has ended; whether it has."""
    poll = select.poll()
    for pipe in output.places:
        poll.register(pipe, select.POLLIN)
    try:
        handle = os.pidfd_open(child)
        poll.register(handle, select.POLLIN)
        shortest = LATEST
    except (OSError, AttributeError):  # before Linux 5.3
        handle, shortest = -1, SOONEST

    def ends(seconds: float) -> bool:
        until = time.monotonic() + min(seconds, shortest)
        while True:
            ready = [each for each, _ in poll.poll(max(0.0, until - time.monotonic()) * 1000)]
            for each in ready:
                if each != handle and not output.copy(each):
                    poll.unregister(each)
            if handle in ready or (handle < 0 and os.waitid(os.P_PID, child, ENDED) is not None):
                return True
            if output.too_much() or time.monotonic() >= until:
                return False

    return ends


def passed_limit(child: int, limits: Task, idle: Any, gone: Any) -> str | None:
    """Limit that all processes together have passed, upwards or downwards."""
    family = descendants(child)
    if sum(each.threads for each in family) > limits["processes"]:
        return "processes"
    memory = [each.memory() for each in family]
    resident = sum(each for each, _ in memory) * resource.getpagesize()
    if max(resident, gone(sum(own for _, own in memory))) > limits["resident"]:
        return "memory"
    return "idle" if idle(family) > limits["idle"] else None


def disappearance() -> Any:
    """A function that says how many bytes are in no process's pages: sockets, tables, semaphores, memory that nobody maps. It is told how many
    pages the program has written.

    What the kernel counts, it says by kind; all else is what is neither free nor written by anybody. Both of the least and most that ever
    were: what ended before may still be freed, which takes some machines minutes.
    """
    least, most = sys.maxsize, 0

    def gone(pages: int) -> int:
        nonlocal least, most
        counted, left = 0, -pages * resource.getpagesize()
        with open("/proc/meminfo", "rb") as stream:
            for line in stream:
                if line.startswith((*COUNTED, *ROOM)):
                    size = int(line.split()[1]) << 10
                    counted, left = (
                        (counted + size, left) if line.startswith(COUNTED) else (counted, left + size)
                    )
        least, most = min(least, counted), max(most, left)
        return max(counted - least, most - left)

    gone(0)
    return gone


def idleness() -> Any:
    """A function that says for how many seconds a family has taken no time of a processor, nor got or lost a member."""
    last: Any = None
    since = time.monotonic()

    def idle(family: list[Process]) -> float:
        nonlocal last, since
        now = {(each.number, each.used) for each in family}
        if now != last:
            last, since = now, time.monotonic()
        return time.monotonic() - since

    return idle


def descendants(child: int) -> list[Process]:
    """The processes that this one started, or that were left to it or to its child, which a /proc with ``hidepid`` does not show."""
    found: dict[int, list[Process]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            each = Process(name)
        except OSError:  # it has just ended
            continue
        found.setdefault(each.parent, []).append(each)
    family, left = list[Process](), [os.getpid(), child]
    while left:
        for each in found.pop(left.pop(), ()):
            family.append(each)
            left.append(each.number)
    return family


def reap(child: int, *, killed: bool) -> Task:
    """Have nothing left; how the child ended."""
    if killed:
        os.kill(child, KILL)
    until = time.monotonic() + LAST
    ended: Task = {}
    while time.monotonic() < until:
        try:
            process, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if process == child and not os.WIFSTOPPED(status):
            ended = {"code": os.waitstatus_to_exitcode(status), "peak": used.ru_maxrss * 1024}
        elif process == 0:
            end_all(os.getpid() if ended else child)
    return ended


def end_all(child: int) -> None:
    """First stopped, each of them: what is stopped starts no others while the rest is found."""
    for signal in (STOP, KILL):
        known: set[int] = set()
        while found := {each.number for each in descendants(child)} - known:
            known |= found
            for process in found:
                send(process, signal)
    time.sleep(0.001)


def send(process: int, signal: int) -> None:
    try:
        os.kill(process, signal)
    except OSError:
        pass


def finish(task: Task, outcome: Task) -> None:
    """In its place at once: a file that is half written says nothing."""
    with open(task["outcome"] + ".new", "wb") as stream:
        marshal.dump(outcome, stream)
    os.rename(task["outcome"] + ".new", task["outcome"])


def lay_out(task: Task) -> None:
    """Namespaces with the named files, and nothing else."""
    os.setsid()
    call("unshare", NEW_NS | NEW_NET | NEW_IPC | NEW_UTS)
    raise_loopback()
    write("/proc/sys/user/max_user_namespaces", 0)  # forbids further ones
    root = task["root"]
    call("mount", "none", "/", None, REC | PRIVATE, None)
    call("mount", "sandbox", root, "tmpfs", NOSUID | NODEV, "mode=755,size=4m")
    for name in ("proc", "dev", "tmp"):
        os.mkdir(f"{root}/{name}")
    for path, to in task["links"]:
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        os.symlink(to, root + path)
    flags = NOSUID | NODEV | NOEXEC | (0 if task["proc"] else RDONLY)
    call("mount", "proc", f"{root}/proc", "proc", flags, "hidepid=2")
    for path in task["proc"]:
        bind(root + path, root + path)
        protect(root + path, RECURSIVE)
    hide_keys(f"{root}/proc", f"{root}/nothing")
    for path in task["devices"]:
        bind(path, root + path)
        # Root's own outside, who is nobody in here: written to, but not changed.
        protect(root + path, 0, RDONLY | NOSUID)
    scratch = f"mode=1777,size={task['scratch']},nr_inodes={SCRATCH_FILES}"
    call("mount", "scratch", f"{root}/tmp", "tmpfs", NOSUID | NODEV, scratch)
    for path in task["shown"]:
        bind(path, root + path)
        protect(root + path, RECURSIVE)
    protect(root, 0)
    change_root(root)


def hide_keys(proc: str, nothing: str) -> None:
    """Hide the names of keys, which are the user's own, whatever namespaces there are."""
    os.close(os.open(nothing, os.O_CREAT, 0o444))
    for name in ("keys", "key-users"):
        if os.path.exists(f"{proc}/{name}"):
            bind(nothing, f"{proc}/{name}")
            protect(f"{proc}/{name}", 0)
    os.unlink(nothing)


def write(file: str, number: int) -> None:
    """Into a setting of these namespaces; kernels that have none of their own refuse it."""
    try:
        with open(file, "w") as stream:
            stream.write(str(number))
    except OSError:
        pass


def bind(path: str, there: str) -> None:
    if os.path.isdir(path):
        os.makedirs(there, exist_ok=True)
    elif not os.path.exists(there):
        os.makedirs(os.path.dirname(there), exist_ok=True)
        os.close(os.open(there, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o644))
    call("mount", path, there, None, BIND | REC, None)


def protect(there: str, how: int, flags: int = RDONLY | NOSUID | NODEV) -> None:
    """Make a mount read-only, and those below it."""
    words = b"".join(word.to_bytes(8, sys.byteorder) for word in (flags, 0, 0, 0))
    try:
        call("syscall", MOUNT_SETATTR, HERE, there, how, words, len(words))
    except OSError:
        # Before Linux 5.12 the mount alone: what is mounted below it keeps what it was mounted with.
        kept = sum(to for at, to in KEPT if os.statvfs(there).f_flag & at)
        call("mount", None, there, None, REMOUNT | BIND | flags | kept, None)


def change_root(root: str) -> None:
    os.chdir(root)
    try:
        call("syscall", PIVOT_ROOT[os.uname().machine], ".", ".")
        call("umount2", ".", DETACH)
    except (OSError, KeyError):  # of an initramfs there is no way back to
        os.chroot(".")
    os.chdir("/")


def raise_loopback() -> None:
    """Programs have a server that is asked on 127.0.0.1; of this namespace nothing leads out."""
    try:
        socket = call("socket", 2, 2 | 0x80000, 0)
        request = b"lo".ljust(16, b"\0") + (0x41).to_bytes(2, sys.byteorder) + bytes(22)
        call("ioctl", socket, 0x8914, request)
        os.close(socket)
    except OSError:
        pass


def leave_root(processes: int) -> None:
    """Become a user of one's own that has root's rights to files: of root the kernel counts no processes, and a program that forks
    without end is quicker than who looks. Where that is not allowed, looking is all there is.
    """
    with open("/proc/self/status") as stream:
        own = next(int(line.split()[1], 16) for line in stream if line.startswith("CapEff"))
    user = user_of_its_own()
    # Who may not end another user's programs leaves them root's.
    if user is None or not all(own >> each & 1 for each in (ANY_FILE, ANY_PROCESS, ANY_USER)):
        return
    try:
        call("prctl", KEEPCAPS, 1, 0, 0, 0)
        os.setresuid(user, user, user)
        kept = (1 << ANY_FILE).to_bytes(4, sys.byteorder)
        call("capset", (0x20080522).to_bytes(4, sys.byteorder) + bytes(4), 3 * kept + bytes(12))
        call("prctl", CAP_AMBIENT, 2, ANY_FILE, 0, 0)
        call("prctl", PDEATHSIG, KILL)  # of which a change of users leaves nothing
        resource.setrlimit(resource.RLIMIT_NPROC, (processes + BESIDE,) * 2)
    except OSError:
        pass


def user_of_its_own() -> int | None:
    """The number of a user that is nobody's, of those that there are in these namespaces."""
    with open("/proc/self/uid_map") as stream:
        first, _, count = max((tuple(map(int, line.split())) for line in stream), key=lambda line: line[2])
    end = min(first + count, HIGHEST_USER)
    return end - 1 - os.getpid() % USERS if end - first > 2 * USERS else None


def give_up_privileges() -> None:
    for each in range(CAPABILITIES):
        libc.prctl(CAPBSET_DROP, ctypes.c_long(each), 0, 0, 0)
    call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
    call("capset", (0x20080522).to_bytes(4, sys.byteorder) + bytes(4), bytes(24))


def refuse_calls() -> None:
    """Have the kernel answer some calls as if it had none of them."""
    filter = instruction(LOAD, 4)
    for processor, numbers in REFUSED.items():
        block = rules((*numbers, *COMMON), *SOCKET[processor])
        filter += instruction(EQUAL, processor, 0, len(block) // 8) + block
    filter += instruction(RETURN, ALLOWED)
    kept = ctypes.create_string_buffer(filter)
    size = ctypes.sizeof(ctypes.c_void_p)
    program = (len(filter) // 8).to_bytes(2, sys.byteorder).ljust(size, b"\0")
    call("prctl", SECCOMP, FILTER, program + ctypes.addressof(kept).to_bytes(size, sys.byteorder), 0, 0)


def rules(calls: tuple[int, ...], socket: int, option: int) -> bytes:
    """The filter's part for one processor."""
    made = instruction(LOAD, 0) + instruction(AND, NOT_X32)
    for each in calls:
        made += instruction(EQUAL, each, 0, 1) + instruction(RETURN, NO_SUCH_CALL)
    families = instruction(LOAD, ARGUMENTS)
    for at, each in enumerate(FAMILIES):
        families += instruction(EQUAL, each, len(FAMILIES) - at)
    families += instruction(RETURN, NO_SUCH_FAMILY) + instruction(RETURN, ALLOWED)
    options = instruction(LOAD, ARGUMENTS + 8) + instruction(EQUAL, OF_SOCKETS, 0, len(BUFFERS) + 1)
    options += instruction(LOAD, ARGUMENTS + 16)
    for at, each in enumerate(BUFFERS):
        options += instruction(EQUAL, each, len(BUFFERS) - at)
    options += instruction(RETURN, ALLOWED) + instruction(RETURN, NO_SUCH_OPTION)
    for number, block in ((socket, families), (option, options)):
        made += instruction(EQUAL, number, 0, len(block) // 8) + block
    return made + instruction(RETURN, ALLOWED)


def instruction(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    """One instruction of the filter (``struct sock_filter``)."""
    return b"".join(
        (code.to_bytes(2, sys.byteorder), bytes((when_true, when_false)), value.to_bytes(4, sys.byteorder))
    )


def hide_words() -> None:
    """Everybody may read the words that a process was started with."""
    with open("/proc/self/stat", "rb") as stream:
        words = stream.read().rpartition(b")")[2].split()
    for first, last in ((45, 46), (47, 48)):
        ctypes.memset(int(words[first]), 0, int(words[last]) - int(words[first]))


if __name__ == "__main__":
    main(sys.argv[1])
