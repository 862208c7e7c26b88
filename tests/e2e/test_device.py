"""A bundle proved on devices: a shell of this machine, a real OpenSSH server, a root of arm64 behind one; liars, and devices that fail at each step."""

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.support.adb_server import SERIAL, adb_server
from tests.support.arm64_root import arm64_shell
from tests.support.bundles import made_bundle
from tests.support.command import edgepack
from tests.support.device_tools import needs
from tests.support.devices import Board, board_in, executable
from tests.support.signed import key_in
from tests.support.small_models import write_small_bert
from tests.support.sshd import ssh_server
from tests.support.static_models import write_with_words

from edgepack import python_api
from edgepack.bundles.manifest import MANIFEST, file_entry, open_bundle, write_manifest
from edgepack.errors import DeviceError, FloorError, ProofError, UsageError, VerificationError
from edgepack.foundry.processors.aarch64 import AARCH64
from edgepack.foundry.proof.emulator import find_qemu
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.device import OnDevices
from edgepack.records.model import ModelSource

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.builds("a table in place of a graph: made in seconds, and run some twenty times a test"),
]


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory, minilm: ModelSource) -> Bundle:
    folder = tmp_path_factory.mktemp("static")
    model = write_with_words(folder / "model", minilm.tokenizer)
    return made_bundle("linux-x86-static", folder / "out", "--model", str(model))


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return board_in(tmp_path / "board")


@pytest.fixture
def every_text() -> None:
    """For a proof with as many strange texts as users' have."""


@pytest.fixture(autouse=True)
def fewer_texts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a device does wrong shows by a hundred strange texts, too."""
    if "every_text" not in request.fixturenames:
        monkeypatch.setattr("edgepack.verifier.tokens.FUZZ_TEXTS", 100)


def proved(bundle: Bundle, tmp_path: Path, *devices: str, **more: object) -> OnDevices:
    more.setdefault("model", bundle.directory.parents[1] / "model")
    return python_api.verify_on(
        bundle.directory,
        devices,
        record=tmp_path / "record.devices.json",
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.slow
@pytest.mark.usefixtures("every_text")
def test_it_is_proved_recorded_and_removed(static: Bundle, board: Board, tmp_path: Path) -> None:
    found = proved(static, tmp_path, board.address(), f"second={board.address().partition('=')[2]}")
    first, second = found.results
    assert (first.status, first.id, second.id) == ("passed", "board", "second")
    assert first.verification.texts == 200 and first.verification.same_tokens >= 4200
    assert first.verification.drawn is not None and first.verification.mean_cosine > 0.9999
    assert first.vectors == second.vectors != ""
    assert {"self-test", "vectors", "drawn texts", "batches", "tokenizer"} <= set(first.ran)
    assert first.files_by == "sha256sum" and first.device.machine == "x86_64"
    assert first.speed is not None and first.speed.peak_mb is not None
    assert board.left == []
    assert len(json.loads((tmp_path / "record.devices.json").read_text())["predicate"]["devices"]) == 2


def test_the_command_has_a_table_a_code_and_a_record_that_is_required(
    static: Bundle, board: Board, tmp_path: Path
) -> None:
    key_in(tmp_path)
    record = str(tmp_path / "r.json")
    asked = ["verify", str(static.directory), "--record", record]
    model = ["--model", str(static.directory.parents[1] / "model")]
    done = edgepack(
        *asked,
        *model,
        "--on",
        board.address(),
        "--on",
        "gone=ssh://127.0.0.1:1",
        "--sign",
        str(tmp_path / "key.key"),
    )
    assert done.returncode == 24, done.stderr
    assert "board: passed, mean cosine 1.0000" in done.stdout
    assert "error: gone cannot be reached: " in done.stderr
    assert edgepack(*asked, "--require-device", "board").returncode == 0
    assert edgepack(*asked, "--require-device", "x64", "--key", str(tmp_path / "key.pub")).returncode == 0
    refused = edgepack(*asked, "--require-device", "arm64")
    assert (refused.returncode, "hint: devices of the record: board (x86_64)" in refused.stderr) == (24, True)
    assert edgepack(*asked, "--require-device", "board", "--min-cosine", "1").returncode == 24


@pytest.mark.slow
def test_the_command_says_it_in_json(static: Bundle, board: Board, tmp_path: Path) -> None:
    model = ["--model", str(static.directory.parents[1] / "model")]
    asked = ["verify", str(static.directory), "--record", str(tmp_path / "r.json"), "--json"]
    said = json.loads(edgepack(*asked, *model, "--on", board.address()).stdout)
    assert said["results"][0]["status"] == "passed" and said["failures"] == []


STEPS = 20
"""Calls of a device in a verification, and some more: after the last nothing fails."""


@pytest.mark.parametrize("what", ["die", "die-once"])
@pytest.mark.parametrize(
    "at",
    [1, 4, 6, 9, *(pytest.param(at, marks=pytest.mark.slow) for at in (2, 3, 5, 7, 8, *range(10, STEPS)))],
)
def test_a_device_that_dies_at_each_step(
    what: str, at: int, static: Bundle, board: Board, tmp_path: Path
) -> None:
    found = proved(static, tmp_path, board.failing(what, at))
    if not found.failures:
        assert at > 12, "nothing failed"
        return
    (failure,) = found.failures
    assert failure.exit_code == DeviceError.exit_code, failure.message
    assert failure.message.startswith("board ") and failure.hint
    assert "\n" not in failure.message + failure.hint
    assert not (tmp_path / "record.devices.json").exists()
    # One that is gone for good keeps what it has; one that comes back does not.
    assert what == "die" or board.left == [] or at == 4


@pytest.mark.parametrize("what", [pytest.param("hang-once", marks=pytest.mark.slow), "flood"])
@pytest.mark.parametrize("at", [6, 8])
def test_a_device_that_hangs_or_floods(
    what: str, at: int, static: Bundle, board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgepack.verifier.confined.limits.SECONDS", 0.0)
    monkeypatch.setattr("edgepack.verifier.confined.limits.OUTPUT", 4 << 20)
    monkeypatch.setattr("edgepack.device.program.GRACE", 3.0)
    monkeypatch.setattr("edgepack.device.placed.LEAST", 3.0)
    found = proved(static, tmp_path, board.failing(what, at))
    (failure,) = found.failures
    assert failure.exit_code == DeviceError.exit_code
    assert ("did not answer within" if what == "hang-once" else "wrote more than") in failure.message
    assert board.left == []


LIES = {
    "rounded": (r"sed -E 's/(-?[0-9]\.[0-9])[0-9]+/\1/g'", (VerificationError,)),
    "others'": ("sort", (VerificationError, ProofError)),
    "all the same": ("""awk 'NR==1{first=$0} {print first}'""", (VerificationError,)),
    "too few": ("head -n 3", (ProofError,)),
    "no numbers": ("sed -E 's/-?[0-9]\\.[0-9]+/NaN/g'", (ProofError, VerificationError)),
    "too large": ("sed -E 's/-?[0-9]\\.[0-9]+/1e999/g'", (ProofError, VerificationError)),
    "brackets": ("sed -E 's/.*/[[[[[[[/'", (ProofError,)),
}


@pytest.mark.parametrize(
    "lie",
    [pytest.param(name, marks=[] if name in ("rounded", "too few") else pytest.mark.slow) for name in LIES],
)
def test_a_device_that_lies_about_vectors(lie: str, static: Bundle, board: Board, tmp_path: Path) -> None:
    command, kinds = LIES[lie]
    # The device's shell is another program, which lets the bundle's program run and changes what it says.
    board.with_program(
        "liar",
        "shift 2\n"
        f'case "$1" in *embed*--jsonl*--out*) trap "" PIPE; /bin/sh -c "$1" | {command} ;; *) exec /bin/sh -c "$1" ;; esac',
    )
    found = proved(static, tmp_path, board.address("liar"))
    (failure,) = found.failures
    assert failure.exit_code in {kind.exit_code for kind in kinds}, failure.message
    assert board.left == []


def test_another_program_on_the_device(static: Bundle, board: Board, tmp_path: Path) -> None:
    """One whose files were exchanged there, by who also says that they are as they were."""
    digests = "\n".join(f"{file['sha256']}  ./{file['path']}" for file in static.manifest["files"])
    board.with_program("sha256sum", f"cat <<'END'\n{digests}\nEND")
    board.with_program("tar", '/bin/tar "$@" && printf \'#!/bin/sh\\necho "{}"\\n\' > embed')
    found = proved(static, tmp_path, board.address())
    assert [failure.exit_code for failure in found.failures] == [ProofError.exit_code]
    assert board.left == []


def test_a_failure_takes_an_earlier_proof_away(static: Bundle, board: Board, tmp_path: Path) -> None:
    assert proved(static, tmp_path, board.address()).results
    board.with_program("tar", '/bin/tar "$@" && sed -i \'s/"texts"/"tests"/\' golden.json')
    board.with_program("sha256sum", "echo none")
    found = proved(static, tmp_path, board.address())
    assert not found.results


def test_what_a_device_is_not_for_is_refused_before_it_is_sent(
    static: Bundle, board: Board, tmp_path: Path
) -> None:
    board.with_program("uname", 'case "$1" in -m) echo aarch64 ;; *) exec /bin/uname "$@" ;; esac')
    (failure,) = proved(static, tmp_path, board.address()).failures
    assert failure.exit_code == FloorError.exit_code
    assert failure.message == f"{static.name} is for x86_64, and board is aarch64"


def test_a_bundle_of_strangers_is_sent_with_run_only(
    static: Bundle, board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgepack.verifier.trusted_bundles.is_made_here", lambda digest, *, store: False)
    with pytest.raises(UsageError, match="devices have no sandbox"):
        proved(static, tmp_path, board.address())
    (found,) = proved(static, tmp_path, board.address(), run=True).results
    assert found.status == "passed" and found.verification.said
    assert board.left == []


def test_a_bundle_of_strangers_computes_with_its_own_model(
    static: Bundle, board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program runs another bundle, which lies in it."""
    folder = tmp_path / static.directory.name
    shutil.copytree(static.directory, folder, symlinks=True)
    shutil.copytree(static.directory, folder / "LICENSES/real", symlinks=True)
    executable(folder / "embed", '#!/bin/sh\nexec "$(dirname "$0")/LICENSES/real/embed" "$@"\n')
    parts = {file["path"]: file["part"] for file in static.manifest["files"]}
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    files = [
        file_entry(folder / name, root=folder, part=parts.get(name, "licenses"))
        for name in names
        if name != MANIFEST
    ]
    write_manifest(folder, {**static.manifest, "files": files})
    monkeypatch.setattr("edgepack.verifier.trusted_bundles.is_made_here", lambda digest, *, store: False)
    model = static.directory.parents[1] / "model"
    found = proved(open_bundle(folder), tmp_path, board.address(), run=True, model=model)
    (failure,) = found.failures
    assert failure.exit_code == VerificationError.exit_code
    assert "the program gives the same vectors with zeros for its model" in failure.message
    assert board.left == [] and found.record is None


@pytest.mark.slow
def test_a_project_proves_what_it_built(
    static: Bundle, board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = static.directory.parents[1] / "model"
    name, _, address = board.address().partition("=")
    (tmp_path / "edgepack.toml").write_text(
        f'[[bundle]]\nmodel = "{model}"\ntargets = ["linux-x86-static"]\n'
        f'[devices]\n{name} = "{address}"\ngone = "exec:false"\n'
    )
    rows = [json.loads(edgepack("build", "--on", "--offline", "--json").stdout) for _ in range(2)]
    states = [{each["device"]: each["state"] for each in said["devices"]} for said in rows]
    assert states == [
        {"board": "passed", "gone": "not there"},
        {"board": "up to date", "gone": "not there"},
    ]


@pytest.mark.slow
@needs("adb")
def test_over_adb(static: Bundle, board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By adb's own client, and a server of the test's, which is no Android device."""
    with adb_server({"PATH": os.environ["PATH"], "TMPDIR": str(board.temporary)}) as server:
        monkeypatch.setenv("ADB_SERVER_SOCKET", server)
        found = proved(static, tmp_path, f"board=adb:{SERIAL}", "other=adb:ELSEWHERE")
    assert [result.status for result in found.results] == ["passed"]
    (failure,) = found.failures
    assert failure.exit_code == DeviceError.exit_code
    assert "`adb devices` has to list it" in failure.hint
    assert board.left == []


@pytest.mark.slow
@needs("sshd")
def test_over_ssh(static: Bundle, board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ssh_server(tmp_path / "ssh", monkeypatch, f"SetEnv TMPDIR={board.temporary}") as address:
        found = proved(static, tmp_path, f"board={address}", bench=True)
        assert [each.message for each in found.failures] == []
        (result,) = found.results
        assert result.status == "passed" and result.transport == "ssh"
        assert result.speed is not None and result.speed.texts >= 200
        assert result.speed.cpu_seconds is not None and result.speed.kept_speed is not None
        assert board.left == []
        log = (tmp_path / "ssh" / "log").read_text()
    assert log.count("Accepted publickey") <= 1, "one connection is shared"


@pytest.mark.slow
@needs("sshd")
def test_ssh_without_a_key_asks_nobody(
    static: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ssh_server(tmp_path / "ssh", monkeypatch) as address:
        (tmp_path / "ssh" / "user.pub").write_text("")
        (failure,) = proved(static, tmp_path, f"board={address}").failures
    assert failure.exit_code == DeviceError.exit_code
    assert "Permission denied" in failure.message and "true` has to work without a question" in failure.hint


@pytest.mark.slow
@needs("sshd", "proot")
@pytest.mark.timeout(3600)
def test_arm64_over_ssh(
    tmp_path: Path,
    minilm: ModelSource,
    static: Bundle,
    shared_context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = arm64_shell(tmp_path / "arm64", context=shared_context)
    forced = tmp_path / "forced"
    forced.write_text(f'#!/bin/sh\nexec {shell} -c "$SSH_ORIGINAL_COMMAND"\n')
    forced.chmod(0o755)
    bundle = made_bundle(
        "linux-arm64-static",
        tmp_path / "out",
        "--model",
        str(write_with_words(tmp_path / "model", minilm.tokenizer)),
    )
    with ssh_server(tmp_path / "ssh", monkeypatch, f"ForceCommand {forced}") as address:
        found = proved(bundle, tmp_path, f"pi={address}")
        assert [each.message for each in found.failures] == []
        (result,) = found.results
        assert (result.status, result.device.machine) == ("passed", "aarch64")
        assert result.device.distribution == "A root of arm64"
        assert not list((tmp_path / "arm64" / "root" / "tmp").iterdir())
        (refused,) = proved(static, tmp_path / "other", f"pi={address}").failures
        assert refused.exit_code == FloorError.exit_code
        cuda = with_provider(static, tmp_path / "cuda")
        (refused,) = proved(
            cuda, tmp_path / "third", f"pi={address}", run=True, model=tmp_path / "model"
        ).failures
        assert refused.message.endswith("is for x86_64, and pi is aarch64")


@pytest.mark.slow
@needs("proot")
@pytest.mark.timeout(3600)
def test_lower_levels_of_arm64(tmp_path: Path, shared_context: HostContext) -> None:
    """The engine's kernels for i8mm, dotprod and neither, which give the same bits; the lower ones by a copy that is told so."""
    model = write_small_bert(tmp_path / "model")
    bundle = made_bundle("linux-arm64-fast", tmp_path / "out", "--model", str(model))
    shell = arm64_shell(tmp_path / "arm64", context=shared_context)
    found = proved(
        bundle, tmp_path, f"pi=exec:{executable(tmp_path / 'pi', CALLS.format(shell=shell))}", model=model
    )
    assert [each.message for each in found.failures] == []
    (result,) = found.results
    assert result.device.levels == ("neon", "dotprod", "i8mm")
    assert result.verification.levels == ("neon", "dotprod") and result.verification.processor_cosine == 1.0
    qemu = find_qemu(AARCH64, context=shared_context)
    alone = f"alone=exec:{qemu.program} -L {qemu.libc}"
    found = proved(bundle, tmp_path, alone, model=model)
    assert [each.message for each in found.failures] == []
    assert found.results[0].device.processor == "emulated by qemu-aarch64"
    assert found.results[0].vectors == result.vectors


CALLS = '#!/bin/sh\nshift\nexec {shell} "$@"\n'
"""What is called with ``sh -c LINE``."""
NEEDS_GPU = """#!/bin/sh
here=$(dirname "$0")
case "$*" in
  *--allow-cpu*) for word do shift; [ "$word" = --allow-cpu ] || set -- "$@" "$word"; done; exec "$here/embed-cpu" "$@" ;;
esac
echo "error: no NVIDIA driver is loaded$(printf '%2500s' ' ' | tr ' ' .)" >&2
exit 9
"""


def with_provider(bundle: Bundle, folder: Path) -> Bundle:
    """A bundle that needs a GPU, as its manifest and its program say."""
    shutil.copytree(bundle.directory, folder)
    (folder / "embed").rename(folder / "embed-cpu")
    executable(folder / "embed", NEEDS_GPU)
    (folder / MANIFEST).unlink()
    parts = {str(file["path"]): str(file["part"]) for file in bundle.manifest["files"]}
    files = [
        file_entry(path, root=folder, part=parts.get(path.relative_to(folder).as_posix(), "runner"))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    provider = {"name": "CUDAExecutionProvider", "libraries": [], "system": []}
    runtime = {"library": "embed", "version": "1.21.0", "kind": "made", "toolchain": "", "requires": []}
    manifest = {
        **bundle.manifest,
        "files": files,
        "runtime": {**runtime, "operators": None, "provider": provider},
    }
    write_manifest(folder, manifest)
    return open_bundle(folder)


def test_without_its_gpu_a_bundle_is_not_verified(static: Bundle, board: Board, tmp_path: Path) -> None:
    bundle = with_provider(static, tmp_path / "cuda")
    model = static.directory.parents[1] / "model"
    found = proved(bundle, tmp_path, board.address(), model=model, run=True)
    assert [each.message for each in found.failures] == []
    (result,) = found.results
    assert result.status == "not verified"
    assert "no NVIDIA driver is loaded" in result.verification.reason
    with pytest.raises(DeviceError, match=r"has not passed on board: .*no NVIDIA driver is loaded"):
        python_api.check_device(bundle.directory, "board", record=tmp_path / "record.devices.json")
