"""What a stranger's program tries in the sandbox, and does not get. Both kinds, where this host allows them."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from edgepack.context import BuildContext
from edgepack.errors import ToolError
from edgepack.plugins.context import HostContext
from edgepack.verifier import sandbox as module
from edgepack.verifier.limits import RunLimits, timed_out, wrote_too_much
from edgepack.verifier.sandbox import KINDS, Kind, Sandbox, find_sandbox

pytestmark = pytest.mark.tools("env", "python", "bash", may=("setpriv",))

SECRET = "hf_this_is_a_secret"


@pytest.fixture(params=KINDS)
def sandbox(request: pytest.FixtureRequest, context: HostContext, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Each kind that works here."""
    kind: Kind = request.param
    monkeypatch.setattr(module, "KINDS", (kind,))
    found = find_sandbox(context)
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


def inside(
    sandbox: Sandbox, bundle: Path, script: str, *, readable: tuple[Path, ...] = ()
) -> subprocess.CompletedProcess[str]:
    command = [*sandbox.command(bundle, readable=readable), "bash", "-c", script]
    environment = {**os.environ, "HF_TOKEN": SECRET}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


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


def test_the_bundle_is_there_and_read_only(sandbox: Sandbox, bundle: Path) -> None:
    done = inside(
        sandbox, bundle, "cat manifest.json; pwd; echo x > manifest.json; echo x > new; rm manifest.json"
    )
    assert done.stdout == f"{{}}{bundle}\n"
    assert done.stderr.count("Read-only file system") == 3
    assert [path.name for path in bundle.iterdir()] == ["manifest.json"]


def test_nothing_else_can_be_written(sandbox: Sandbox, bundle: Path) -> None:
    places = (
        "/x",
        "/usr/x",
        "/dev/x",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/swappiness",
        "/proc/sysrq-trigger",
    )
    # Opened, and nothing written: were one writable, it would be this machine's.
    done = inside(sandbox, bundle, "".join(f": >> {place}\n" for place in places))
    assert len(done.stderr.splitlines()) == len(places), done.stderr
    done = inside(
        sandbox, bundle, "mount -o remount,rw,bind /usr; mount -t tmpfs tmpfs /usr; echo x > /usr/x"
    )
    assert done.returncode != 0


def test_tmp_is_empty_and_its_own(sandbox: Sandbox, bundle: Path) -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp") as other:
        done = inside(sandbox, bundle, f"ls {other.name}; echo x > /tmp/mine && cat /tmp/mine")
    assert done.stdout == "x\n"
    assert not Path("/tmp/mine").exists()


def test_other_files_are_not_there(sandbox: Sandbox, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "shown").write_text("shown")
    look = f"cat '{tmp_path}/secret' '{tmp_path}/shown' /etc/passwd; ls /home /root /run /var"
    done = inside(sandbox, bundle, look, readable=(tmp_path / "shown",))
    assert done.stdout == "shown"
    assert done.stderr.count("No such file") == 6


def test_there_is_no_network(sandbox: Sandbox, bundle: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        call = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        assert subprocess.run(["bash", "-c", call], check=False).returncode == 0, "outside it can be called"
        done = inside(sandbox, bundle, call)
    assert done.returncode != 0
    assert "refused" in done.stderr or "unreachable" in done.stderr


def test_other_processes_and_the_environment_are_not_seen(sandbox: Sandbox, bundle: Path) -> None:
    done = inside(
        sandbox, bundle, "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'; env; ls /proc"
    )
    assert SECRET not in done.stdout + done.stderr
    assert "sandbox, bundle" not in done.stdout
    assert not {str(os.getpid()), str(os.getppid())} & set(done.stdout.split()) - {"1"}


def test_it_has_no_privileges_and_a_session_of_its_own(sandbox: Sandbox, bundle: Path) -> None:
    done = inside(sandbox, bundle, "grep -E '^(Cap|NoNewPrivs)' /proc/self/status; ps -o sid= -p $$")
    *facts, session = done.stdout.split()
    said = dict(zip(facts[::2], facts[1::2], strict=True))
    assert said.pop("NoNewPrivs:") == "1"
    assert set(said.values()) == {"0" * 16}
    assert int(session) in (1, 2), "of the sandbox's own first processes"


def test_how_a_program_ends_is_seen_outside(sandbox: Sandbox, bundle: Path) -> None:
    assert inside(sandbox, bundle, "exit 9").returncode == 9
    assert inside(sandbox, bundle, "kill -SEGV $$").returncode == 128 + signal.SIGSEGV
    assert inside(sandbox, bundle, "exec no-such-program").returncode == 127


def test_a_program_that_does_not_end_is_ended(sandbox: Sandbox, bundle: Path, context: BuildContext) -> None:
    mark = f"98{os.getpid()}"
    # Ignoring signals and leaving the session do not help.
    script = f"trap '' HUP TERM INT; setsid sleep {mark} & sleep {mark}; sleep {mark}"
    start = time.monotonic()
    with pytest.raises(ToolError) as raised:
        context.run([*RunLimits(seconds=1).command(), *sandbox.command(bundle), "bash", "-c", script])
    assert timed_out(raised.value), raised.value.message
    assert time.monotonic() - start < 30
    require_gone(mark)


def test_it_dies_with_its_parent(sandbox: Sandbox, bundle: Path) -> None:
    mark = f"97{os.getpid()}"
    command = [*RunLimits().command(), *sandbox.command(bundle), "bash", "-c", f"sleep {mark} & sleep {mark}"]
    script = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    parent = subprocess.Popen([sys.executable, "-c", script, *map(str, command)])
    deadline = time.monotonic() + 30
    while len(processes_with(mark)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(processes_with(mark)) == 2
    parent.kill()
    parent.wait()
    require_gone(mark)


def require_gone(mark: str) -> None:
    deadline = time.monotonic() + 30
    while processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not processes_with(mark)


def test_memory_is_limited(sandbox: Sandbox, bundle: Path) -> None:
    fill = "x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}"
    for address_space, said in ((100 << 20, ""), (4 << 30, "300000000")):
        limits = RunLimits(address_space=address_space)
        command = [*limits.command(), *sandbox.command(bundle), "bash", "-c", fill]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout.strip() == said


def test_output_is_limited(sandbox: Sandbox, bundle: Path, context: BuildContext) -> None:
    limited = [*RunLimits(output=1 << 20).command(), *sandbox.command(bundle), "bash", "-c"]
    assert len(context.run([*limited, "head -c 1000000 /dev/zero"])) == 1_000_000
    for stream in ("", ">&2"):
        with pytest.raises(ToolError) as raised:
            context.run([*limited, f"exec cat /dev/zero {stream}"])
        assert wrote_too_much(raised.value) and not timed_out(raised.value), raised.value.message
        assert len(raised.value.message) < 2 << 20


def test_output_is_limited_without_a_sandbox(context: BuildContext) -> None:
    with pytest.raises(ToolError) as raised:
        context.run([*RunLimits(output=1 << 20).command(), "cat", "/dev/zero"])
    assert wrote_too_much(raised.value), raised.value.message[:200]


def test_processes_are_limited(sandbox: Sandbox) -> None:
    """Those of ordinary users: who is root becomes one."""
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []
    script = "for each in $(seq 30); do sleep 20 & done; kill $(jobs -p); echo all"
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o755)
        for limit, said in ((20, ""), (60, "all")):
            counted = replace(sandbox, root=Path(place), processes=limit)
            command = [
                *other,
                *RunLimits().command(),
                *counted.command(Path("/usr/share")),
                "sh",
                "-c",
                script,
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.stdout.strip() == said, done.stderr
            assert ("fork" in done.stderr) == (not said)


def test_a_host_without_any(context: HostContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*words: object, **options: object) -> str:
        raise ToolError("unshare: unshare failed: Operation not permitted")

    monkeypatch.setattr(HostContext, "run", refused)
    assert find_sandbox(context) is None


def test_what_ends_for_another_reason_did_not_time_out(context: HostContext) -> None:
    with pytest.raises(ToolError) as raised:
        context.run([*RunLimits(seconds=60).command(), "sh", "-c", "exit 4"])
    assert not timed_out(raised.value) and "exit code 4" in raised.value.message
