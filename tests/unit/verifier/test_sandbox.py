"""What a stranger's program tries in the sandbox, and does not get. Each kind that this host allows."""

import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.bubblewrap import bubblewrap

from edgepack import tools
from edgepack.console import Story
from edgepack.errors import DiskFullError, EdgepackError, ToolError, UsageError
from edgepack.files.elf import interpreter
from edgepack.files.store import Store, default_root
from edgepack.plugins.context import host_context
from edgepack.verifier.confined import found as find_module
from edgepack.verifier.confined import launcher
from edgepack.verifier.confined import program as program_module
from edgepack.verifier.confined import sandbox as module
from edgepack.verifier.confined.found import find_sandbox
from edgepack.verifier.confined.limits import RunLimits
from edgepack.verifier.confined.program import LAUNCHER, Ended, confine
from edgepack.verifier.confined.sandbox import KINDS, Kind, Sandbox, view_of

pytestmark = pytest.mark.tools("python", "bash")

DEFAULT_STORE = default_root()
SECRET = "hf_this_is_a_secret"
Run = Callable[..., Ended]


@pytest.fixture(params=KINDS)
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Each kind that works here."""
    kind: Kind = request.param
    monkeypatch.setattr(module, "KINDS", (kind,))
    if kind == "bubblewrap" and not tools.is_installed("bwrap"):
        with host_context(story=Story(quiet=True), offline=True, store=Store(root=DEFAULT_STORE)) as context:
            try:
                fetched = bubblewrap(context)
            except EdgepackError as error:
                pytest.skip(f"no bubblewrap: {error.message}; make fetched gets it")
        monkeypatch.setenv("PATH", f"{fetched.parent}:{os.environ['PATH']}")
    if kind == "bubblewrap":
        monkeypatch.setattr(os, "geteuid", lambda: 1000)  # root has none of it
    found = find_sandbox()
    if found is None:
        pytest.skip(f"{kind} is not installed, or not allowed on this host")
    return found


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A folder that a program may read."""
    folder = tmp_path / "a bundle"
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    return folder


@pytest.fixture
def inside(sandbox: Sandbox, bundle: Path, tmp_path: Path) -> Run:
    """Runs a script in the sandbox, which shows the bundle and the system's programs."""
    return running(sandbox, bundle, tmp_path)


def running(sandbox: Sandbox | None, bundle: Path, work: Path) -> Run:
    def run(
        script: str, *shown: Path, limits: RunLimits | None = None, shell: str = "bash", gpu: bool = False
    ) -> Ended:
        view = view_of([bundle, *shown], system=True, gpu=gpu)
        return confine([shell, "-c", script], bundle, sandbox=sandbox, view=view, work=work, limits=limits)

    return run


@pytest.fixture(params=["sandboxed", "alone"])
def run(request: pytest.FixtureRequest, bundle: Path, tmp_path: Path) -> Run:
    """As ``inside``, and without a sandbox: limits are held in both."""
    return running(find_sandbox() if request.param == "sandboxed" else None, bundle, tmp_path)


def processes_with(mark: str) -> list[int]:
    """Processes of this machine that have a word in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words and b"sleep" in words[0]:
            found.append(int(path.parent.name))
    return found


def require_gone(mark: str) -> None:
    deadline = time.monotonic() + 30
    while processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not processes_with(mark)


def test_the_bundle_is_there_and_read_only(inside: Run, bundle: Path) -> None:
    done = inside("cat manifest.json; pwd; echo x > manifest.json; echo x > new; rm manifest.json")
    assert done.output == f"{{}}{bundle}\n"
    assert done.messages.count("Read-only file system") == 3
    assert [path.name for path in bundle.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize("gpu", [False, True])
def test_nothing_else_can_be_written(inside: Run, gpu: bool) -> None:
    places = (
        "/x",
        "/usr/x",
        "/dev/x",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/swappiness",
        "/proc/sysrq-trigger",
    )
    # Opened, and nothing written: were one writable, it would be this machine's.
    done = inside("".join(f": >> {place}\n" for place in places), gpu=gpu)
    assert len(done.messages.splitlines()) == len(places), done.messages
    done = inside("mount -o remount,rw,bind /usr; mount -t tmpfs tmpfs /usr; echo x > /usr/x", gpu=gpu)
    assert done.code != 0


def test_devices_are_written_to_and_not_changed(inside: Run, sandbox: Sandbox) -> None:
    """They are root's, and nobody in there is root outside: /dev/null of mode 600 ends all other users' shells until the next start."""
    if sandbox.kind == "bubblewrap":
        pytest.skip("never root's")
    before = {path: path.stat().st_mtime_ns for path in map(Path, ("/dev/null", "/dev/urandom"))}
    ended = inside(
        "echo x > /dev/null && head -c 3 /dev/urandom | wc -c; chmod 666 /dev/null; touch -d 2001-01-01 /dev/urandom"
    )
    assert ended.output.strip() == "3" and ended.messages.count("Read-only file system") == 2
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_root_has_no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    find_module._find.cache_clear()
    monkeypatch.setattr(module, "KINDS", ("bubblewrap",))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert find_sandbox() is None
    find_module._find.cache_clear()


def test_of_proc_a_program_for_a_gpu_writes_what_is_of_its_processes(inside: Run) -> None:
    """NVIDIA's driver names its threads, and does not start where it cannot (CUDA error 304)."""
    name = "echo driver > /proc/$$/task/$$/comm; read name < /proc/$$/task/$$/comm; echo $name"
    named, refused = inside(name, gpu=True), inside(name)
    assert (named.output, named.messages) == ("driver\n", "")
    assert refused.output == "bash\n" and "Read-only file system" in refused.messages
    others = "for each in /proc/[!0-9]*; do test -L $each || ! test -w $each || echo $each; done"
    assert inside(others, gpu=True).output == ""


def test_tmp_is_empty_and_its_own(inside: Run) -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp") as other:
        done = inside(f"ls {other.name}; echo x > /tmp/mine && cat /tmp/mine")
    assert done.output == "x\n"
    assert not Path("/tmp/mine").exists()


def test_other_files_are_not_there(inside: Run, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "shown").write_text("shown")
    (bundle / "leads-out").symlink_to(tmp_path / "secret")
    places = f"'{tmp_path}/secret' '{tmp_path}/shown' leads-out /proc/self/root/{tmp_path}/secret"
    done = inside(f"cat {places} /etc/passwd; ls /home /root /run /var", tmp_path / "shown")
    assert done.output == "shown"
    assert done.messages.count("No such file") == 8


def test_files_are_shown_alone_and_what_lies_beside_them_is_not(inside: Run, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    for name in ("tool", "id_rsa"):
        (tmp_path / "home" / name).write_text(name)
    assert inside(f"ls '{tmp_path}/home'", tmp_path / "home" / "tool").output == "tool\n"


@pytest.mark.parametrize("folder", ["/", "~", "..", "."])
def test_folders_that_are_nobody_s_business_are_not_shown(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, here = tmp_path / "home", tmp_path / "project" / "below"
    for each in (home, here):
        each.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    if folder == ".":
        assert here in view_of([here]).shown, "who is in a bundle's folder may verify it"
        return
    with pytest.raises(UsageError, match="would be shown to the bundle's program"):
        view_of([Path(folder).expanduser()])
    (tmp_path / "link").symlink_to(Path(folder).expanduser().resolve())
    with pytest.raises(UsageError):
        view_of([tmp_path / "link"])


def test_a_loader_that_is_none_of_the_system_s_is_not_shown(tmp_path: Path) -> None:
    """Beside an emulated program lies one of this host's that names a file of the user's as its loader."""
    secret = tmp_path / "id_ed25519"
    secret.write_text(SECRET)
    for named in (f"/usr/..{secret}", str(secret), f"/lib/../{secret}"):
        words = named.encode() + b"\0"
        head = struct.pack(
            "<16sHHIQQQIHHHHHH",
            b"\x7fELF\x02\x01\x01",
            *(2, 62, 1, 0x400078, 64, 0, 0, 64, 56, 1, 0, 0, 0),
        )
        segment = struct.pack("<IIQQQQQQ", 3, 4, 120, 0x400078, 0x400078, len(words), len(words), 1)
        program = tmp_path / "bundle" / "decoy"
        program.parent.mkdir(exist_ok=True)
        program.write_bytes(head + segment + words)
        assert interpreter(program) == named
        assert view_of([program.parent], libc_of=program).shown == (program.parent,)


def test_there_is_no_network_but_its_own(inside: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        call = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        done = inside(call)
    assert done.code != 0
    assert "refused" in done.messages or "unreachable" in done.messages


def test_other_processes_and_the_environment_are_not_seen(
    inside: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    done = inside("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'; env; ls /proc")
    assert SECRET not in done.output + done.messages
    assert "launcher" not in done.output
    assert not {str(os.getpid()), str(os.getppid())} & set(done.output.split()) - {"1"}


def test_the_environment_is_the_same_for_every_bundle_and_an_ordinary_one(run: Run) -> None:
    """Nothing by which a program could tell that it is verified."""
    said = dict(line.split("=", 1) for line in run("env").output.splitlines())
    assert {name: said[name] for name in program_module.ENVIRONMENT} == program_module.ENVIRONMENT
    assert {"HOME", "PATH", "LANG"} <= said.keys()
    assert said.keys() - program_module.ENVIRONMENT.keys() <= {"PWD", "SHLVL", "_", "OLDPWD"}


def test_it_has_no_privileges_and_a_session_of_its_own(inside: Run) -> None:
    done = inside("grep -E '^(Cap|NoNewPrivs)' /proc/self/status; cut -d' ' -f6 /proc/$$/stat")
    *facts, session = done.output.split()
    said = dict(zip(facts[::2], facts[1::2], strict=True))
    assert said.pop("NoNewPrivs:") == "1"
    assert set(said.values()) == {"0" * 16}
    assert int(session) in (1, 2), "of the sandbox's own first processes"


def test_it_makes_no_namespaces_of_its_own(inside: Run, sandbox: Sandbox) -> None:
    if sandbox.kind == "namespaces":
        assert inside("unshare --user true").code != 0


def test_how_a_program_ends_is_seen_outside(run: Run) -> None:
    assert run("exit 9").code == 9
    assert run("kill -SEGV $$").code in (-11, 139)
    assert run("exec no-such-program").code == 127
    assert run("exec true").peak > 0


def test_what_cannot_be_started_is_said(bundle: Path, tmp_path: Path) -> None:
    for sandbox in (find_sandbox(), None):
        view = view_of([bundle])
        ended = confine([bundle / "no-such"], bundle, sandbox=sandbox, view=view, work=tmp_path)
        assert ended.refused is not None and "No such file" in ended.refused


def test_a_program_that_does_not_end_is_ended(sandbox: Sandbox, bundle: Path, tmp_path: Path) -> None:
    mark = f"98{os.getpid()}"
    # Ignoring signals and leaving the session do not help.
    script = f"trap '' HUP TERM INT; setsid sleep {mark} & sleep {mark}; sleep {mark}"
    for kind in (sandbox, None):
        done = running(kind, bundle, tmp_path)(script, limits=RunLimits(seconds=1))
        assert done.passed == "time"
        require_gone(mark)


def test_what_a_program_leaves_behind_ends_with_it(run: Run) -> None:
    """Daemons, orphans, and what holds its output open."""
    mark = f"96{os.getpid()}"
    done = run(
        f"(setsid sleep {mark} & setsid sh -c 'sleep {mark} & sleep {mark}' &) ; sleep {mark} & echo done"
    )
    assert (done.code, done.output) == (0, "done\n")
    require_gone(mark)


@pytest.mark.parametrize("by", ["KILL", "INT", "HUP", "QUIT", "TSTP"])
def test_it_dies_with_its_parent(run: Run, by: str) -> None:
    """A terminal's signals are for all of its group. After Ctrl-Z the limits hold."""
    mark = f"97{os.getpid()}"
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.signal(signal.SIGTSTP, lambda *_: os.kill(os.getpid(), signal.SIGSTOP))  # of an orphaned group
        try:
            run(f"setsid sleep {mark} & sleep {mark}", limits=RunLimits(seconds=3 if by == "TSTP" else 600))
        finally:
            os._exit(0)
    try:
        deadline = time.monotonic() + 30
        while len(processes_with(mark)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(processes_with(mark)) == 2
        (os.kill if by == "KILL" else os.killpg)(child, getattr(signal, f"SIG{by}"))
        if by == "TSTP":
            require_gone(mark)
    finally:
        if by == "TSTP":
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    require_gone(mark)


@pytest.mark.sample(1)
def test_many_runs_at_once_end(run: Run) -> None:
    said: list[str] = []

    def several() -> None:
        said.extend(run(f"echo {number}; sleep 0.01 &").output for number in range(5))

    threads = [threading.Thread(target=several) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(said) == sorted([f"{number}\n" for number in range(5)] * 6)


@pytest.mark.sample(1)
def test_memory_is_limited(run: Run) -> None:
    fill = "x=$(head -c 150000000 /dev/zero | tr '\\0' x); echo ${#x}"
    for address_space, said in ((100 << 20, ""), (4 << 30, "150000000")):
        assert run(fill, limits=RunLimits(address_space=address_space)).output.strip() == said


@pytest.mark.sample(1)
def test_the_memory_of_all_processes_together_is_limited(run: Run) -> None:
    """Each has little."""
    fill = "for i in 1 2 3 4 5 6; do (x=$(head -c 40000000 /dev/zero | tr '\\0' x); sleep 300) & done; wait"
    done = run(fill, limits=RunLimits(resident=150 << 20, seconds=300))
    assert done.passed == "memory"


PYTHON = "/usr/bin/python3"
"""One that is seen in the sandbox."""
needs_python = pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"there is no {PYTHON}")
HOLDERS = {
    "sockets": """
kept = []
for each in range(1500):
    kept += socket.socketpair()
    for end in kept[-2:]:
        end.setblocking(False)
        try:
            while end.send(bytes(65536)):
                pass
        except BlockingIOError:
            pass
""",
    "memory that nobody maps": """
kept = []
for each in range(8):
    kept.append(mmap.mmap(-1, 50 << 20))
    for at in range(0, 50 << 20, 4096):
        kept[-1][at] = 1
    kept[-1].madvise(mmap.MADV_DONTNEED)
""",
    "a process without its first thread": """
def fill():
    kept = bytearray(400 << 20)
    for at in range(0, len(kept), 4096):
        kept[at] = 1
    time.sleep(20)
threading.Thread(target=fill).start()
ctypes.CDLL(None).pthread_exit(None)
""",
}


@needs_python
@pytest.mark.parametrize("what", HOLDERS)
def test_memory_that_is_no_process_s_is_limited_too(run: Run, what: str) -> None:
    script = f"import ctypes, mmap, os, socket, threading, time\n{HOLDERS[what]}\ntime.sleep(20)"
    limits = RunLimits(resident=60 << 20)
    done = run(f"exec {PYTHON} -c '{script}'", limits=limits)
    assert done.passed == "memory"


def test_a_thread_that_has_just_ended_hides_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's first thread has ended, and the others take turns."""
    process = launcher.Process(str(os.getpid()))
    assert (usual := process.memory())[0] > 1000
    process.ended, process.threads = True, 3
    monkeypatch.setattr(os, "listdir", lambda path: ["1", str(os.getpid()), "999999999"])
    assert process.memory()[0] > usual[0] / 2


def test_a_first_process_that_proc_does_not_show_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``hidepid`` it is not there for who may not trace it; its children are, and nobody counted them."""

    def children() -> list[int]:
        return [each.number for each in launcher.descendants(first.pid) if each.parent == first.pid]

    first = subprocess.Popen(["bash", "-c", "sleep 60 & sleep 60 & wait"], start_new_session=True)
    try:
        numbers, deadline = os.listdir, time.monotonic() + 30
        monkeypatch.setattr(
            os, "listdir", lambda path: [each for each in numbers(path) if each != str(first.pid)]
        )
        while len(found := children()) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(found) == 2
        monkeypatch.undo()
        assert children() == found, "nobody twice"
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()


TRACED = """
import ctypes, os, signal
ctypes.CDLL(None).ptrace(0, 0, 0, 0)
signal.signal(signal.SIGUSR1, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGUSR1)
"""


@needs_python
def test_a_program_that_has_its_parent_trace_it_has_not_ended(run: Run) -> None:
    ended = run(f"exec {PYTHON} -c '{TRACED}'", limits=RunLimits(seconds=3, idle=2))
    assert ended.passed in ("idle", "time")


CALLS = """
import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
numbers = {"x86_64": (248, 249, 250, 278, 298, 319, 321, 323, 425, 447), "aarch64": (217, 218, 219, 75, 241, 279, 280, 282, 425, 447)}
for number in numbers[os.uname().machine]:
    print(c.syscall(number, 1, 0, 0, 0, 0), os.strerror(ctypes.get_errno()))
for family in (1, 2, 16, 29, 38, 40):
    print(c.socket(family, 1 + family // 16, 0) > 0, end=" ")
buffer = c.socket(1, 1, 0)
four = (ctypes.c_int * 1)(4 << 20)
print([c.setsockopt(buffer, 1, each, four, 4) for each in (7, 8, 32, 33, 9)], end=" ")
print(c.shmget(0, 1 << 20, 0o1600), c.msgget(0, 0o1600), c.semget(0, 9, 0o1600), open("/proc/self/stat").read() != "")
"""


@needs_python
@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="other numbers")
def test_calls_that_no_limit_sees_are_refused(run: Run) -> None:
    """Keys of the user's, memory that is in no process's pages (files in memory may be on their way in a socket), and sockets that no namespace
    has to itself."""
    done = run(f"exec {PYTHON} -c '{CALLS}'")
    last = "True True True False False False [-1, -1, -1, -1, 0] -1 -1 -1 True"
    assert done.output.splitlines() == [*["-1 Function not implemented"] * 10, last]


def test_the_names_of_keys_are_not_seen(inside: Run) -> None:
    assert inside("cat /proc/keys /proc/key-users").output == ""


LONELY = """
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
for at in range(60000):
    ctypes.string_at(libc.mmap(ctypes.c_void_p((at + 16) << 30), 4096, 1, 0x22, -1, ctypes.c_long(0)), 1)
import time; time.sleep(20)
"""
DENSE = """
import ctypes, mmap
size = 300 << 30
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
start = libc.mmap(None, ctypes.c_size_t(size), 1, 0x4022, -1, ctypes.c_long(0))
libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), 15)
for at in range(start, start + size, 2 << 20):
    ctypes.string_at(at, 1)
import time; time.sleep(20)
"""


@needs_python
@pytest.mark.parametrize("script", [DENSE, LONELY])
def test_tables_of_pages_are_counted(run: Run, script: str) -> None:
    """Pages of zeros are nobody's, and each table is for 2 MiB; of a page far from all others there are three."""
    assert run(f"exec {PYTHON} -c '{script}'", limits=RunLimits(resident=150 << 20)).passed == "memory"


def test_output_is_limited(run: Run) -> None:
    limits = RunLimits(output=1 << 20)
    done = run("head -c 1000000 /dev/zero", limits=limits)
    assert (len(done.output), done.passed) == (1_000_000, None)
    for script in (
        "exec cat /dev/zero",
        "exec cat /dev/zero >&2",
        "trap '' XFSZ; while cat /dev/zero; do :; done; sleep 600",
    ):
        done = run(script, limits=limits)
        assert done.passed == "output", script
        assert len(done.output) + len(done.messages) < 3 << 20


@needs_python
def test_output_takes_no_more_of_the_disk_than_it_is_long(run: Run) -> None:
    """A file may have blocks behind its end."""
    script = """
import ctypes, os
libc = ctypes.CDLL(None)
for file in (0, 1, 2):
    print(libc.fallocate(file, 1, ctypes.c_long(0), ctypes.c_long(1 << 30)), os.fstat(file).st_blocks)
"""
    assert run(f"exec {PYTHON} -c '{script}'").output == "-1 0\n" * 3


def test_messages_are_kept_as_far_as_anybody_reads_them(run: Run) -> None:
    said = run("yes | head -c 3000000 >&2; echo last >&2").messages
    assert len(said) == 1 << 20 and said.endswith("y\nlast\n")


def test_processes_are_limited(run: Run) -> None:
    script = "for each in $(seq 30); do sleep 20 & done; sleep 2; kill $(jobs -p); echo all"
    assert run(script, limits=RunLimits(processes=20)).passed == "processes"
    assert run(script, limits=RunLimits(processes=60)).output == "all\n"


FORKS = """
import os, time
try:
    for made in range(1000):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        print(made + 1, flush=True)
except OSError:
    time.sleep(20)
"""


def test_a_program_that_forks_without_end_is_stopped_by_the_kernel(bundle: Path, tmp_path: Path) -> None:
    """Of root's programs the kernel counts none: without a sandbox they are another user's, who reads and writes what root may."""
    if os.geteuid() != 0:
        pytest.skip("others' processes are limited by their system")
    (bundle / "manifest.json").chmod(0o600)
    run = running(None, bundle, tmp_path)
    limits = RunLimits(processes=40)
    done = run(f"exec {sys.executable} -c '{FORKS}'", limits=limits)
    assert done.passed == "processes"
    assert 39 <= int(done.output.split()[-1]) < 100, "who looks is slower than forks"
    assert run("cat manifest.json; echo x > new", limits=limits).output == "{}"
    assert (bundle / "new").read_text() == "x\n"
    assert run("b() { b | b & }; b; sleep 20", limits=limits).passed == "processes"
    refused = run("grep 'Max processes' /proc/self/limits", limits=limits).output.split()
    assert int(refused[2]) < 100, "the kernel refuses what nobody saw in time"
    facts = run("grep -E '^(CapEff|NoNewPrivs)' /proc/self/status; id -u").output.split()
    assert facts[1::2][:2] == ["0000000000000002", "1"] and int(facts[-1]) > 100_000


WAITS = {
    "its output is closed": "exec >&- 2>&- <&-; exec sleep {mark}",
    "another holds its output": "setsid sleep {mark} & setsid sh -c 'sleep {mark}; sleep {mark}' & sleep {mark}",
    "no signal ends it": "trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE; while :; do sleep {mark}; done",
    "it is stopped": "sleep {mark} & kill -STOP $$",
    "all are stopped": "setsid sleep {mark} & kill -STOP $!; setsid sh -c 'kill -STOP $$' & kill -STOP $$",
    "it does not read": "exec 0<&0; exec sleep {mark}",
    "its parent left": "(setsid sh -c 'exec >&- 2>&-; sleep {mark}' &); exec sleep {mark}",
}


@pytest.mark.sample(7)
@pytest.mark.parametrize("how", WAITS)
def test_whatever_it_does_it_ends_in_time(sandbox: Sandbox, bundle: Path, tmp_path: Path, how: str) -> None:
    """The time that is waited is the limit, and what killing takes: nothing that was started may hold the caller."""
    mark = f"95{os.getpid()}"
    for kind in (sandbox, None):
        started = time.monotonic()
        view = view_of([bundle], system=True)
        done = confine(
            ["bash", "-c", WAITS[how].format(mark=mark)],
            bundle,
            sandbox=kind,
            view=view,
            work=tmp_path,
            limits=RunLimits(seconds=1),
            input="a line that nobody reads\n" * 100_000,
        )
        assert done.passed == "time"
        require_gone(mark)
        assert time.monotonic() - started < 30


@pytest.mark.sample(1)
def test_a_program_that_waits_for_itself_is_not_waited_for_until_its_time_is_over(run: Run) -> None:
    limits = RunLimits(seconds=60, idle=2)
    started = time.monotonic()
    assert run("sleep 600 & sleep 600", limits=limits).passed == "idle"
    assert time.monotonic() - started < 30
    assert limits.in_words("idle") == "did nothing for 2 s, and did not end"
    busy = "end=$((SECONDS + 4)); while [ $SECONDS -lt $end ]; do :; done; echo done"
    assert run(busy, limits=limits).output == "done\n"


def test_a_program_without_a_sandbox_cannot_have_its_watcher_wait(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shares the user of who watches, where that is not root: what was stopped is ended from outside."""
    monkeypatch.setattr(program_module, "GRACE", 1)
    mark = f"94{os.getpid()}"
    started = time.monotonic()
    try:
        run = running(None, bundle, tmp_path)
        passed = run(f"kill -STOP $PPID; exec sleep {mark}", limits=RunLimits(seconds=1)).passed
    except ToolError:
        passed = "time"
    assert passed == "time" and time.monotonic() - started < 30
    require_gone(mark)


def test_a_thread_that_ends_takes_no_other_s_program_along(run: Run) -> None:
    """A parent's death is that of its thread: each waits for what it started itself."""
    ended: list[Ended] = []

    def one(seconds: str) -> None:
        ended.append(run(f"sleep {seconds}; echo {seconds}"))

    threads = [threading.Thread(target=one, args=(seconds,)) for seconds in ("0.1", "1.5")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [each.output for each in ended] == ["0.1\n", "1.5\n"]


def test_scratch_is_limited(inside: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (module, program_module):
        monkeypatch.setattr(each, "SCRATCH", 1 << 20)
    assert "No space left" in inside("head -c 2000000 /dev/zero > /tmp/x").messages


def test_open_files_are_limited(run: Run) -> None:
    script = 'for i in $(seq 10 200); do eval "exec $i</dev/null" || exit 3; done; echo all'
    assert run(script, limits=RunLimits(files=100)).output == ""
    assert run(script, limits=RunLimits(files=300)).output == "all\n"


def test_a_long_run_is_told_of(
    run: Run, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_module, "SILENT", 0.05)
    told: list[str] = []

    @contextmanager
    def progress(label: str) -> Iterator[object]:
        class Bar:
            def advance(self, amount: int = 1) -> None:
                told.append(label)

        yield Bar()

    def shown(label: str) -> AbstractContextManager[object]:
        return progress(label)

    view = view_of([bundle], system=True)
    confine(["sleep", "0.5"], bundle, sandbox=None, view=view, work=tmp_path, progress=shown)  # type: ignore[arg-type]
    assert told and "it is ended after 600 s" in told[0]


def test_a_launcher_that_does_not_end_is_ended_itself(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = tmp_path / "launcher.py"
    hung.write_text("import time; time.sleep(600)")
    monkeypatch.setattr(program_module, "LAUNCHER", hung)
    monkeypatch.setattr(program_module, "GRACE", 0.1)
    with pytest.raises(ToolError, match="did not finish within"):
        confine(
            ["true"],
            bundle,
            sandbox=None,
            view=view_of([bundle]),
            work=tmp_path,
            limits=RunLimits(seconds=0.1),
        )


def test_a_disk_that_is_full_is_said_so(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that the program cannot be started."""
    full = tmp_path / "launcher.py"
    full.write_text("raise SystemExit(1)")
    monkeypatch.setattr(program_module, "LAUNCHER", full)
    monkeypatch.setattr(program_module, "free_bytes", lambda place: 0)
    with pytest.raises(DiskFullError, match="no space left"):
        confine(["true"], bundle, sandbox=None, view=view_of([bundle]), work=tmp_path)
    # Its output had no room.
    full.write_text(
        LAUNCHER.read_text().replace("at += os.write(", "raise OSError(28, 'No space left') or (")
    )
    with pytest.raises(DiskFullError, match="no space left"):
        confine(["echo", "a"], bundle, sandbox=None, view=view_of([bundle]), work=tmp_path)


def test_a_host_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "bwrap: No permissions to create a new namespace, likely because the kernel does not allow"
    monkeypatch.setattr(
        program_module, "confine", lambda *words, **options: Ended(output="", messages=said, code=1)
    )
    monkeypatch.setattr(module, "KINDS", (*KINDS,) * 2)  # asked anew
    assert find_sandbox() is None


@pytest.mark.parametrize(
    "ended",
    [
        Ended(output="", messages="", code=127, refused="[Errno 11] fork: Resource temporarily unavailable"),
        Ended(output="", messages="bwrap: Creating new namespace failed: Cannot allocate memory\n", code=1),
        Ended(output="", messages="", code=-9, passed="time"),
        Ended(output="", messages="", code=127, refused="[Errno 28] unshare: No space left on device"),
        Ended(output="", messages="bwrap: nesting depth or max_*_namespaces exceeded (ENOSPC)\n", code=1),
        Ended(output="", messages="", code=-9, refused="it was ended"),
        Ended(output="", messages="", code=-9),
    ],
)
def test_a_machine_that_is_short_of_something_is_not_one_without_a_sandbox(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's program had been run without any."""
    find_module._find.cache_clear()
    monkeypatch.setattr(program_module, "confine", lambda *asked, **how: ended)
    with pytest.raises(ToolError, match="cannot tell whether this machine has a sandbox"):
        find_sandbox()
    lasting = replace(ended, passed=None, refused="[Errno 1] unshare: Operation not permitted", messages="")
    monkeypatch.setattr(program_module, "confine", lambda *asked, **how: lasting)
    assert find_sandbox() is None
    find_module._find.cache_clear()


def test_a_machine_that_allows_no_namespaces_has_no_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says the same as one whose namespaces are all in use."""
    find_module._find.cache_clear()
    said = Ended(output="", messages="", code=127, refused="[Errno 28] unshare: No space left on device")
    monkeypatch.setattr(program_module, "confine", lambda *asked, **how: said)
    most = tmp_path / "max_user_namespaces"
    monkeypatch.setattr(find_module, "ALLOWED", [tmp_path / "max_pid_namespaces", most])
    most.write_text("1\n")
    with pytest.raises(ToolError, match=r"cannot tell .*namespaces: .* No space left"):
        find_sandbox()
    most.write_text("0\n")
    assert find_sandbox() is None
    find_module._find.cache_clear()


def test_a_command_of_bubblewrap_shows_what_the_view_has(tmp_path: Path) -> None:
    """Also where it is not installed."""
    view = replace(view_of([tmp_path]), links=((Path("/bin"), Path("usr/bin")),))
    words = Sandbox(kind="bubblewrap", bwrap=Path("/usr/bin/bwrap")).before(view, tmp_path)
    said = " ".join(words)
    assert f"--ro-bind {tmp_path} {tmp_path}" in said and "--symlink usr/bin /bin" in said
    assert "--unshare-all" in words and words[-1] == "--" and "/usr" not in words
