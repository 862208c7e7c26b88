"""A bundle on a device: it arrives, it is compared, and nothing of it stays, whatever happens."""

import re
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.devices import Board, board_in, executable, session_of
from tests.support.signed import list_files, write_small_bundle

from edgepack.bundles.manifest import open_bundle
from edgepack.device.placed import READ_BACK, Placed, placed
from edgepack.device.program import runner_on
from edgepack.device.session import open_session, parse_address
from edgepack.errors import BundleError, DeviceError, DiskFullError, FloorError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle

pytestmark = pytest.mark.tools("sh", may=("env", "busybox"))
PROGRAM = b'#!/bin/sh\nif [ "$1" = fail ]; then echo \'error: no\' >&2; exit 5; fi\necho "$PWD $*"; cat\n'


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    folder = write_small_bundle(tmp_path / "a bundle", PROGRAM)
    (folder / 'model/it\'s "odd" $(touch x).bin').write_bytes(b"odd")
    return open_bundle(list_files(folder))


@contextmanager
def there(bundle: Bundle, address: str, context: HostContext) -> Iterator[Placed]:
    with (
        open_session(parse_address(address), context=context) as session,
        placed(bundle, session, context=context) as found,
    ):
        yield found


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return board_in(tmp_path / "board")


def test_it_arrives_runs_and_goes(bundle: Bundle, board: Board, context: HostContext) -> None:
    with there(bundle, board.address(), context) as found:
        assert found.files_by == "sha256sum"
        (folder,) = board.left
        assert folder.stat().st_mode & 0o077 == 0
        arrived = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert arrived == {file["path"] for file in bundle.manifest["files"]} | {"manifest.json"}
        runner = runner_on(found, context=context)
        done = runner.run(bundle, [bundle.program, "--a b", "c'd"], "input")
        assert (done.code, done.output) == (0, f"{folder} --a b c'd\ninput")
        failed = runner.run(bundle, [bundle.program, "fail"])
        assert (failed.code, failed.messages.strip()) == (5, "error: no")
    assert board.left == []


def test_without_anything_that_compares_files_are_read_back(
    bundle: Bundle, board: Board, context: HostContext
) -> None:
    with there(bundle, board.poor(), context) as found:
        assert found.files_by == READ_BACK
    assert board.left == []


def file_of_holes(name: str, size: int) -> bytes:
    """A tar with one file without any content (GNU's old form)."""
    head = tarfile.TarInfo(name)
    head.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(head.tobuf(tarfile.GNU_FORMAT))
    block[386:410] = b"%011o\0%011o\0" % (0, 0)
    block[483:495] = b"\x80" + size.to_bytes(11, "big")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + bytes(1024)


def test_half_a_kilobyte_that_stands_for_terabytes_is_not_read(
    bundle: Bundle, board: Board, context: HostContext
) -> None:
    address, tar, bomb = board.poor(), board.folder / "tools" / "tar", board.folder / "bomb"
    bomb.write_bytes(file_of_holes("./manifest.json", 1 << 42))
    with tarfile.open(bomb) as made:
        assert [member.size for member in made] == [1 << 42]
    tar.unlink()
    executable(tar, f'#!/bin/sh\ncase "$1" in -cf) exec cat {bomb} ;; esac\nexec /bin/tar "$@"\n')
    with (
        pytest.raises(BundleError, match="did not arrive as it was sent"),
        there(bundle, address, context),
    ):
        pass
    assert board.left == []


@pytest.mark.tools("sh", "busybox", may=("env",))
def test_busybox_is_enough(bundle: Bundle, board: Board, context: HostContext) -> None:
    tools = board.folder / "applets"
    tools.mkdir()
    subprocess.run(["busybox", "--install", "-s", tools], check=True)
    with there(bundle, board.address(path=str(tools)), context) as found:
        assert found.files_by == "sha256sum"
        assert runner_on(found, context=context).run(bundle, [bundle.program, "x"]).code == 0
    assert board.left == []


CHANGES_A_FILE = 'read -r line < /dev/null; /bin/tar "$@"; code=$?; echo more >> model/model.onnx; exit $code'


def test_a_file_that_arrives_as_another(bundle: Bundle, board: Board, context: HostContext) -> None:
    board.with_program("tar", CHANGES_A_FILE)
    with (
        pytest.raises(BundleError, match=r"board: model/model.onnx did not arrive as it was sent"),
        there(bundle, board.address(), context),
    ):
        pass
    assert board.left == []


FULL = "cat > /dev/null; echo 'tar: x: Cannot write: No space left on device' >&2; exit 2"
LITTLE = "echo 'Filesystem 1024-blocks Used Available Capacity Mounted on'; echo '/dev/x 100 90 10 90% /'"


@pytest.mark.parametrize(
    ("program", "text", "kind", "message"),
    [
        ("tar", FULL, DiskFullError, "board has no space left on its disk"),
        ("tar", "echo 'tar: broken' >&2; exit 3", DeviceError, "board did not take the bundle: tar: broken"),
        ("df", LITTLE, DiskFullError, "board has no folder with room for"),
        (
            "mkdir",
            "echo read-only >&2; exit 1",
            DeviceError,
            "no folder that can be written and whose programs",
        ),
        ("chmod", "exit 1", DeviceError, "no folder that can be written and whose programs"),
    ],
)
def test_a_device_that_cannot_take_it(
    program: str,
    text: str,
    kind: type[Exception],
    message: str,
    bundle: Bundle,
    board: Board,
    context: HostContext,
) -> None:
    address = board.with_program(program, text).address()
    with pytest.raises(kind, match=message), there(bundle, address, context):
        pass
    assert board.left == []


def test_what_runs_there_ends_with_it(bundle: Bundle, board: Board, context: HostContext) -> None:
    with there(bundle, board.address(), context) as found:
        found.session.ask(f"cd {found.folder} && (sleep 1000 < /dev/null > /dev/null 2>&1 &)", "tried")
        running = found.session.ask(f"ls -l /proc/*/cwd 2>/dev/null | grep -c {found.folder}", "tried")
        assert running.text.strip() == "1"
        folder, session = found.folder, found.session
        session.ask(session.shell.remove(folder), "tried")
        after = session.ask(f"ls -l /proc/*/cwd 2>/dev/null | grep -c {folder}", "tried")
        assert after.text.strip() == "0"


REFUSALS = {
    "another processor": "echo 'sh: embed: Exec format error' >&2; exit 126",
    "an older glibc": 'echo "embed: /lib/libc.so.6: version \\`GLIBC_2.38\' not found" >&2; exit 127',
    "no such loader": "exec /no/such/loader",
}


@pytest.mark.parametrize("text", REFUSALS.values(), ids=REFUSALS)
def test_a_program_that_is_not_for_it(text: str, tmp_path: Path, board: Board, context: HostContext) -> None:
    bundle = open_bundle(write_small_bundle(tmp_path / "bundle", f"#!/bin/sh\n{text}\n".encode()))
    with (
        pytest.raises(FloorError, match="board cannot run the program of"),
        there(bundle, board.address(), context) as found,
    ):
        runner_on(found, context=context).run(bundle, [bundle.program])
    assert board.left == []


@pytest.mark.parametrize(
    "folder", ["/", "/tmp", "relative/{name}", "/a/{name}/..", "/a\n/{name}", "", "/{name}x"]
)
def test_a_device_cannot_choose_what_is_removed(
    folder: str, bundle: Bundle, tmp_path: Path, context: HostContext
) -> None:
    asked: list[str] = []

    def answer(line: str) -> tuple[str, ...]:
        asked.append(line)
        token = line.partition('echo "')[2].partition(":")[0]
        name = re.search(r"edgepack-[0-9a-f]{16}(?=\")", line.partition("mkdir")[0])
        said = folder.format(name=name.group() if name else "x")
        return ("sh", "-c", f"printf '%s' '{said}'; echo '{token}:0' >&2")

    with (
        pytest.raises(DeviceError, match="no folder"),
        placed(bundle, session_of(answer), context=context),
    ):
        pass
    assert len(asked) == 1, "nothing was removed"
