"""A device that answers, one that does not, and one that answers too much; addresses."""

import time
from pathlib import Path

import pytest
from tests.support.devices import board_in, executable, plain_session, session_of
from tests.support.signed import write_small_bundle

from edgepack.bundles.manifest import open_bundle
from edgepack.device.describe import describe
from edgepack.device.placed import placed
from edgepack.device.program import runner_on
from edgepack.device.session import open_session, parse_address
from edgepack.errors import DeviceError, EdgepackError, UsageError
from edgepack.plugins.context import HostContext

shell = pytest.mark.tools("sh", may=("env", "false", "ssh"))


@shell
def test_a_line_is_run_with_its_input_output_and_code() -> None:
    said = plain_session().ask("cat; echo 'words of its own' >&2; exit 7", "tried", input=b"\x00\xff'\"")
    assert (said.code, said.output, said.last_words) == (7, b"\x00\xff'\"", "words of its own")


@shell
def test_what_ends_without_its_code_went_away() -> None:
    gone = session_of(lambda line: ("sh", "-c", "echo half; echo 'Connection closed' >&2; exit 255"))
    with pytest.raises(DeviceError, match=r"^board went away while it was tried: Connection closed$"):
        gone.ask("true", "it was tried")


@shell
@pytest.mark.parametrize("forged", ["edgepack-0000000000000000:0", "edgepack-:0", ":0"])
def test_the_end_of_a_line_cannot_be_forged(forged: str) -> None:
    liar = session_of(lambda line: ("sh", "-c", f"echo '{forged}' >&2; exit 1"))
    with pytest.raises(DeviceError, match="went away"):
        liar.ask("true", "it was tried")


@shell
def test_what_does_not_answer_is_not_waited_for() -> None:
    # With what it starts: a child that keeps the output open would be waited for.
    slow = session_of(lambda line: ("sh", "-c", "sleep 100 & sleep 100"))
    begun = time.monotonic()
    with pytest.raises(DeviceError, match="board did not answer within 1 s while it was tried"):
        slow.ask("true", "it was tried", seconds=0.6)
    assert time.monotonic() - begun < 20


@shell
@pytest.mark.parametrize("where", ["", " >&2"])
def test_what_writes_without_end_is_ended(where: str) -> None:
    flood = session_of(lambda line: ("sh", "-c", f"while :; do echo flooooooooooood{where}; done"))
    with pytest.raises(DeviceError, match="board wrote more than 64 KiB while it was tried"):
        flood.ask("true", "it was tried", most=64 << 10)


@shell
def test_words_of_a_device_cannot_steer_a_terminal() -> None:
    rude = session_of(lambda line: ("sh", "-c", r"printf 'x\033[2J ✓ \342\200\256y\n' >&2"))
    with pytest.raises(DeviceError) as caught:
        rude.ask("true", "it was tried")
    assert "\x1b" not in caught.value.message
    assert "✓" not in caught.value.message
    assert "\u202e" not in caught.value.message


@shell
def test_a_device_that_is_reached(tmp_path: Path, context: HostContext) -> None:
    board = board_in(tmp_path)
    with open_session(parse_address(board.address()), context=context) as session:
        assert not session.shell.windows
        assert session.ask("echo $TMPDIR", "tried").text.strip() == str(board.temporary)


@shell
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("exec:false", "exec:false cannot be reached"),
        ("exec:no-such-program", "no-such-program is not installed"),
        ("exec:env --no-such-option", "cannot be reached: Try '.*env --help'"),
        ("a=ssh://127.0.0.1:1", "^a cannot be reached: .*refused"),
        ("sssh://board", r"nothing reaches a device by sssh: \(did you mean ssh\?\)"),
    ],
)
def test_a_device_that_is_not_reached(address: str, message: str, context: HostContext) -> None:
    with (
        pytest.raises(EdgepackError, match=message) as caught,
        open_session(parse_address(address), context=context),
    ):
        pass
    assert caught.value.hint


@pytest.mark.parametrize(
    ("said", "id", "scheme"),
    [
        ("ssh://pi@raspberrypi:22", "ssh://raspberrypi:22", "ssh"),
        ("pi4=ssh://pi@raspberrypi", "pi4", "ssh"),
        ("exec:env A=b sh", "exec:env A=b sh", "exec"),
        ("adb:R58M", "adb:R58M", "adb"),
    ],
)
def test_addresses(said: str, id: str, scheme: str) -> None:
    found = parse_address(said)
    assert (found.id, found.scheme) == (id, scheme)
    assert said.endswith(found.address)


@pytest.mark.parametrize("said", ["", "board", "pi@raspberrypi", "ssh:", "=ssh://x", "SSH://x", "--help"])
def test_what_is_no_address(said: str) -> None:
    with pytest.raises(UsageError, match="names no device"):
        parse_address(said)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://-l@host",
            "ssh://host:22x",
            "ssh://ho st",
            "ssh://host/path",
        ),
        *("ssh://host\n", "exec:", "exec:'", "adb:-s", "adb:a b"),
    ],
)
def test_addresses_that_a_way_does_not_take(address: str, context: HostContext) -> None:
    with pytest.raises(UsageError) as caught:
        make = context.extensions("device")[address.partition(":")[0]].make()
        make(address, context=context)
    assert caught.value.hint


@shell
def test_an_emulator_without_a_shell_runs_the_program_alone(tmp_path: Path, context: HostContext) -> None:
    """A stand-in that runs what has a path, as qemu does, and says what it was."""
    qemu = executable(
        tmp_path / "qemu-aarch64",
        '#!/bin/sh\n[ "$1" = -L ] && shift 2\ncase $1 in */*) echo "under qemu"; exec "$@" ;; esac\necho "no $1" >&2; exit 255\n',
    )
    bundle = open_bundle(write_small_bundle(tmp_path / "bundle", b'#!/bin/sh\necho "$*"\n'))
    with open_session(parse_address(f"exec:{qemu} -L /a/root"), context=context) as session:
        device = describe(session, context=context).device
        assert (device.machine, device.processor) == ("aarch64", "emulated by qemu-aarch64")
        assert (device.levels, device.libc, device.board) == ((), "", "")
        with placed(bundle, session, context=context) as there:
            done = runner_on(there, context=context).run(bundle, [bundle.program, "a b"])
    assert done.output == "under qemu\na b\n"


@shell
@pytest.mark.parametrize("name", ["qemu", "chroot"])
def test_what_runs_no_shell_and_is_no_emulator_is_no_device(
    name: str, tmp_path: Path, context: HostContext
) -> None:
    other = executable(tmp_path / name, "#!/bin/sh\necho no >&2; exit 255\n")
    with (
        pytest.raises(DeviceError, match="cannot be reached: no"),
        open_session(parse_address(f"exec:{other}"), context=context),
    ):
        pass
