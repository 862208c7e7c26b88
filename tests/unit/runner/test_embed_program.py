"""A bundle's own vectors, by its program; here the program is the unfrozen one behind a small script."""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.sample_program import START, run_program, vectors_of

from edgepack.context import BuildContext
from edgepack.errors import BundleError, CannotRunHere, MissingToolError, ProofError
from edgepack.foundry.proof.emulator import Qemu
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.verifier import run as embed_program
from edgepack.verifier.limits import RunLimits
from edgepack.verifier.run import BundleRunner
from edgepack.verifier.sandbox import Sandbox

pytestmark = pytest.mark.tools("c++", "python", "env", may=("setpriv",))


@pytest.fixture(scope="session")
def sample(frozen_sample: Path) -> Path:
    return frozen_sample


def bundle_of(folder: Path, script: str | None = None) -> Bundle:
    """A bundle whose program is the unfrozen one, or a script."""
    path = os.pathsep.join(filter(None, sys.path))
    words = shlex.join([sys.executable, "-c", START, str(folder)])
    program = folder / "embed"
    program.write_text(script or f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {words} "$@"\n')
    program.chmod(0o755)
    manifest: Mapping[str, Any] = json.loads((folder / "manifest.json").read_text())
    return Bundle(directory=folder, manifest=manifest)


def test_vectors_come_in_order_and_whole(copy: Path, context: HostContext) -> None:
    texts = ["a cat", "", "mat\nwith a line\r\nbreak", "日本", 'say "hi"', "the kitten sat on the mat"]
    expected = vectors_of(run_program(copy, *texts).stdout)
    assert BundleRunner(context=context).embed(bundle_of(copy), texts) == expected


def test_no_texts_no_vectors(copy: Path, context: HostContext) -> None:
    assert BundleRunner(context=context).embed(bundle_of(copy), []) == []


def test_a_folder_whose_name_looks_like_a_variable(copy: Path, context: HostContext) -> None:
    folder = copy.rename(copy.with_name("a=b"))
    assert len(BundleRunner(context=context).embed(bundle_of(folder), ["a cat"])) == 1


def test_a_program_that_answers_without_end_is_ended(
    copy: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed_program, "limits_for", lambda bundle: RunLimits(output=1 << 20))
    bundle = bundle_of(copy, "#!/bin/sh\nexec cat /dev/zero\n")
    with pytest.raises(ProofError, match="wrote more than"):
        BundleRunner(context=context, limited=True).embed(bundle, ["a"])


def test_the_environment_is_empty(
    copy: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EDGEPACK_SECRET", "seen")
    seen = tmp_path / "environment"
    bundle = bundle_of(copy, f"#!/bin/sh\n/usr/bin/env > {seen}\nexit 1\n")
    with pytest.raises(ProofError):
        BundleRunner(context=context).embed(bundle, ["a"])
    assert "EDGEPACK_SECRET" not in seen.read_text()
    assert "HOME" not in seen.read_text()


def test_a_damaged_bundle_is_said_to_be_so(copy: Path, context: HostContext) -> None:
    bundle = bundle_of(copy)
    (copy / "model/model.onnx").write_bytes(b"")
    with pytest.raises(BundleError, match=r"model/model\.onnx is damaged"):
        BundleRunner(context=context).embed(bundle, ["a"])


def test_a_missing_program_is_a_damaged_bundle(copy: Path, context: HostContext) -> None:
    bundle = bundle_of(copy)
    bundle.program.unlink()
    with pytest.raises(BundleError, match="cannot be read"):
        BundleRunner(context=context).embed(bundle, ["a"])


def test_a_failing_program_shows_its_last_words(copy: Path, context: HostContext) -> None:
    bundle = bundle_of(copy, "#!/bin/sh\necho 'error: the moon is full' >&2\nexit 5\n")
    with pytest.raises(ProofError, match="the moon is full"):
        BundleRunner(context=context).embed(bundle, ["a"])


def test_a_program_that_is_killed_is_told(copy: Path, context: HostContext) -> None:
    bundle = bundle_of(copy, "#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(ProofError, match="signal 9"):
        BundleRunner(context=context).embed(bundle, ["a"])


def serving(bundle: Bundle, **model: Any) -> Bundle:
    manifest = {**bundle.manifest, "model": {**bundle.manifest["model"], **model}}
    return replace(bundle, manifest={**manifest, "runner": {**bundle.manifest["runner"], "serve": True}})


def test_its_server_is_asked(copy: Path, context: HostContext, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    bundle = bundle_of(copy)
    bundle.program.write_text(bundle.program.read_text().replace("exec ", f'echo "$@" >> {asked}\nexec ', 1))
    runner = BundleRunner(context=context)
    runner.require_server(bundle)
    assert not asked.exists(), "its manifest says that it has none"
    runner.require_server(serving(bundle, task="rank"))
    assert not asked.exists(), "it has no vectors"
    runner.require_server(serving(bundle))
    assert asked.read_text() == "serve --check --port 0\n"


def test_a_sandbox_has_nothing_that_a_server_on_windows_could_listen_on(
    copy: Path, context: HostContext, tmp_path: Path
) -> None:
    """A sandbox has no network, and the program no unix sockets."""
    bundle = serving(bundle_of(copy, "#!/bin/sh\nexit 5\n"))
    target = bundle.manifest["target"]
    platform = {**target["platform"], "os": "windows"}
    windows = replace(bundle, manifest={**bundle.manifest, "target": {**target, "platform": platform}})
    runner = BundleRunner(context=context)
    replace(runner, sandbox=Sandbox(kind="bubblewrap", root=tmp_path)).require_server(windows)
    with pytest.raises(ProofError):
        runner.require_server(windows)


def test_a_server_that_does_not_answer_is_refused(copy: Path, context: HostContext) -> None:
    bundle = serving(bundle_of(copy, "#!/bin/sh\necho 'error: the moon is full' >&2\nexit 5\n"))
    with pytest.raises(ProofError, match="the moon is full"):
        BundleRunner(context=context).require_server(bundle)


@pytest.mark.parametrize(
    "answer", ["", "nonsense", '{"embedding": [1, 2]}', '{"text": "a"}', '{"embedding": "x"}', "[1]"]
)
def test_an_answer_that_is_not_vectors_is_refused(copy: Path, context: HostContext, answer: str) -> None:
    bundle = bundle_of(copy, f"#!/bin/sh\ncat > /dev/null\necho {shlex.quote(answer)}\n")
    with pytest.raises(ProofError):
        BundleRunner(context=context).embed(bundle, ["a"])


def of_processor(bundle: Bundle, arch: str, number: int) -> Bundle:
    """Its program has the number that ELF has for a processor."""
    bundle.program.write_bytes(b"\x7fELF" + bytes(14) + number.to_bytes(2, "little"))
    target = {**bundle.manifest["target"], "platform": {"os": "linux", "arch": arch}}
    return replace(bundle, manifest={**bundle.manifest, "target": target})


@pytest.mark.parametrize("device", [{"os": "linux", "arch": "riscv64"}, {"os": "windows", "arch": "x86_64"}])
def test_a_program_for_other_devices_than_the_bundle_s_is_refused(
    copy: Path, context: HostContext, device: dict[str, str]
) -> None:
    """Though it runs here, and its vectors are right."""
    bundle = of_processor(bundle_of(copy), "x86_64", 62)
    other = replace(bundle, manifest={**bundle.manifest, "target": {"platform": device}})
    with pytest.raises(BundleError, match=r"is for linux on x86_64, the bundle is for (riscv64|windows)"):
        BundleRunner(context=context).embed(other, ["a"])


def test_a_program_for_another_processor_cannot_run_here(copy: Path, context: HostContext) -> None:
    bundle = of_processor(bundle_of(copy), "riscv64", 243)
    with pytest.raises(CannotRunHere, match="riscv64"):
        BundleRunner(context=context).embed(bundle, ["a"])


def for_arm64(copy: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    bundle = of_processor(bundle_of(copy), "aarch64", 183)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return bundle


def test_another_processor_s_program_is_emulated(
    copy: Path, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = for_arm64(copy, monkeypatch)
    vector = json.dumps({"embedding": [0.5] * bundle.manifest["model"]["dimension"]})
    qemu = tmp_path / "qemu-aarch64"
    qemu.write_text(
        f'#!/bin/sh\n[ "$2" = max ] && [ "$5" = "{bundle.program}" ] || exit 9\n'
        f"while read -r line; do echo '{vector}'; done\n"
    )
    qemu.chmod(0o755)
    emulator = Qemu(program=qemu, version="10.0", libc=tmp_path)
    monkeypatch.setattr(embed_program, "find_emulator", lambda arch, context: emulator)
    vectors = BundleRunner(context=context).embed(bundle, ["a", "b"])
    assert len(vectors) == 2 and set(vectors[0]) == {0.5}


def test_without_an_emulator_it_cannot_run_here(
    copy: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(arch: str, context: BuildContext) -> Qemu:
        raise MissingToolError("qemu-aarch64 is not installed")

    bundle = for_arm64(copy, monkeypatch)
    monkeypatch.setattr(embed_program, "find_emulator", none)
    with pytest.raises(
        CannotRunHere, match=r"for aarch64, this host is x86_64: qemu-aarch64 is not installed"
    ):
        BundleRunner(context=context).embed(bundle, ["a"])
