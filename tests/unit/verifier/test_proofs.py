"""A bundle is proved by its own program on its own files, for each kind of processor."""

import hashlib
import json
import os
import platform
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edgepack.bundles.golden import digest_of, with_exact_vectors
from edgepack.bundles.manifest import size_and_sha256
from edgepack.errors import BundleError, CannotRunHere, MissingToolError, ProofError, ToolError
from edgepack.foundry.feature_levels import processor_flags
from edgepack.foundry.proof import by_level
from edgepack.foundry.proof.emulator import Qemu
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.runtime import LevelProof
from edgepack.verifier import proofs as module
from edgepack.verifier.proofs import HIDER, Run, prove_bundle, require_golden
from edgepack.verifier.run import HEXADECIMAL

pytestmark = pytest.mark.tools("gcc", "g++", "env", "python")

SOURCE = Path(__file__).with_name("fake_embed.c")
TEXTS = ["a cat", 'the \t"kitten" sat: 猫 🐈\\']
ARM64 = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\xb7\x00"
NEVER = -1

needs_avx2 = pytest.mark.skipif(
    shutil.which("gcc") is None or not {"avx2"} <= processor_flags(),
    reason="needs gcc and a processor with AVX2",
)
Make = Callable[..., Bundle]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A bundle whose program is the fake one, compiled with these flags, or another file's content."""
    monkeypatch.setenv("EDGEPACK_TOOLCHAIN", "gcc")

    def make(
        *flags: str, broken: int = NEVER, library: bool = False, content: bytes = b"", precision: str = "int8"
    ) -> Bundle:
        folder = tmp_path / "a bundle"
        (folder / "lib").mkdir(parents=True)
        program = folder / "embed"
        if content:
            program.write_bytes(content)
        else:
            flags = (f"-DBROKEN={broken}", *flags)
            if library:
                place = "lib/libonnxruntime.so.1"
                compile_fake(folder / place, "-DSHARED", "-shared", "-fPIC")
                flags = (f'-DLIBRARY="{place}"', *flags)
            compile_fake(program, *flags)
        runtime = {"library": "lib/libonnxruntime.so.1" if library else "embed"}
        (folder / "golden.json").write_text(json.dumps({"texts": TEXTS, "vectors": [[1.0, 0.0]] * 2}))
        return Bundle(directory=folder, manifest=manifest_of(runtime, precision))

    return make


def with_libembed(bundle: Bundle, *flags: str) -> Bundle:
    """The bundle with a library for other programs beside its own, compiled with these flags."""
    texts = ",".join('"' + "".join(f"\\x{byte:02x}" for byte in text.encode()) + '"' for text in TEXTS)
    compile_fake(bundle.directory / "lib/libembed.so", f"-DLIBEMBED={texts}", "-shared", "-fPIC", *flags)
    named = {**bundle.manifest["runner"], "library": "lib/libembed.so"}
    return Bundle(directory=bundle.directory, manifest={**bundle.manifest, "runner": named})


def compile_fake(output: Path, *flags: str) -> None:
    subprocess.run(["gcc", "-O1", *flags, str(SOURCE), "-o", str(output), "-ldl"], check=True)


def manifest_of(runtime: Mapping[str, object] | None, precision: str = "int8") -> dict[str, object]:
    return {
        "name": "small",
        "golden": "golden.json",
        "model": {"file": "model/model.ort", "precision": precision},
        "runtime": runtime,
        "runner": {"program": "embed"},
        "target": {"platform": {"arch": "x86_64"}},
    }


def runner(context: HostContext) -> Run:
    """Runs the program as a host does: with nothing in its environment but what is given."""

    def run(
        bundle: Bundle,
        texts: Sequence[str],
        *,
        environment: Mapping[str, str],
        prefix: Sequence[str | Path],
    ) -> list[list[float]]:
        named = [f"{name}={value}" for name, value in environment.items()]
        folder, words = bundle.directory, bundle.manifest["runner"].get("command", ["embed"])
        command = ["env", "-i", *named, *prefix, *(folder / word for word in words)]
        if bundle.manifest["runner"].get("lines") == HEXADECIMAL:
            said = context.run(
                command, cwd=folder, input="".join(f"{text.encode().hex()}\n" for text in texts)
            )
            rows = (bytes.fromhex(json.loads(line)) for line in said.splitlines())
            return [list(struct.unpack(f"<{len(row) // 4}f", row)) for row in rows]
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        said = context.run(command, cwd=folder, input=lines)
        return [json.loads(line)["embedding"] for line in said.splitlines()]

    return run


def answering(vectors: list[list[float]] | Exception) -> Run:
    """Runs nothing."""

    def run(
        bundle: Bundle,
        texts: Sequence[str],
        *,
        environment: Mapping[str, str],
        prefix: Sequence[str | Path],
    ) -> list[list[float]]:
        assert list(texts) == TEXTS and not environment
        if isinstance(vectors, Exception):
            raise vectors
        return vectors

    return run


def proved(proofs: Sequence[LevelProof]) -> dict[str, str]:
    return {proof.level: proof.by for proof in proofs if proof.proved}


@needs_avx2
@pytest.mark.parametrize("library", [False, True], ids=["runtime in the program", "runtime in a library"])
def test_each_level_is_run_by_the_bundles_own_program(
    library: bool, make: Make, context: HostContext
) -> None:
    bundle = make(library=library)
    before = {path: size_and_sha256(path) for path in bundle.directory.rglob("*") if path.is_file()}
    proofs = prove_bundle(bundle, runner(context), levels="here", context=context)
    found = proved(proofs)
    assert found["sse2"] == found["avx"] == "this CPU, features restricted"
    assert "this CPU" in found.values()
    assert all(proof.min_cosine == 1.0 for proof in proofs if proof.proved)
    assert all(proof.reason for proof in proofs if not proof.proved)
    after = {path: size_and_sha256(path) for path in bundle.directory.rglob("*") if path.is_file()}
    assert after == before, "the bundle itself stays as it is"


@needs_avx2
@pytest.mark.parametrize("library", [False, True], ids=["runtime in the program", "runtime in a library"])
def test_what_is_wrong_at_one_level_is_found_there(library: bool, make: Make, context: HostContext) -> None:
    bundle = make(broken=1, library=library)
    with pytest.raises(
        ProofError, match=r"model\.ort on small \(level avx, this CPU, features restricted\).*0\.0000"
    ):
        prove_bundle(bundle, runner(context), levels="here", context=context)
    assert "sse2" in proved(
        prove_bundle(bundle, runner(context), levels="here", isa=["sse2"], context=context)
    )


@needs_avx2
def test_the_library_for_other_programs_is_proved_like_the_program(make: Make, context: HostContext) -> None:
    bundle = with_libembed(make(), f"-DBROKEN={NEVER}")
    files = sorted(bundle.directory.rglob("*"))
    proofs = prove_bundle(bundle, runner(context), levels="here", context=context)
    assert proved(proofs)["avx"] == "this CPU, features restricted"
    assert sorted(bundle.directory.rglob("*")) == files, "what calls it lies in a copy"


@needs_avx2
@pytest.mark.parametrize("engine", [False, True], ids=["a runtime in it", "kernels of its own"])
def test_a_kernel_that_is_broken_in_the_library_alone(engine: bool, make: Make, context: HostContext) -> None:
    bundle = with_libembed(make(), "-DBROKEN=1")
    if engine:
        runner_said = {**bundle.manifest["runner"], "by_level": True}
        manifest = {**bundle.manifest, "runtime": None, "runner": runner_said}
        bundle = Bundle(directory=bundle.directory, manifest=manifest)
    said = r"model\.ort on small/lib/libembed\.so \(level avx, this CPU, features restricted\).*0\.0000"
    with pytest.raises(ProofError, match=said):
        prove_bundle(bundle, runner(context), levels="here", context=context)
    own = Bundle(directory=bundle.directory, manifest=manifest_of({"library": "embed"}))
    assert "avx" in proved(prove_bundle(own, runner(context), levels="here", context=context))


@needs_avx2
def test_levels_are_run_of_a_bundle_that_does_not_say_that_it_has_any(
    make: Make, context: HostContext
) -> None:
    """A stranger's manifest left them out, and a program that answers wrongly at one of them was verified."""
    bundle = make(broken=1)
    quiet = Bundle(directory=bundle.directory, manifest={**bundle.manifest, "runtime": None})
    assert list(proved(prove_bundle(quiet, runner(context), levels="here", context=context))) == ["this CPU"]
    with pytest.raises(ProofError, match="level avx"):
        prove_bundle(quiet, runner(context), levels="here", anyway=True, context=context)


@needs_avx2
def test_a_level_is_proved_where_both_are(make: Make, context: HostContext) -> None:
    bundle = with_libembed(make("-static"), f"-DBROKEN={NEVER}")
    proofs = prove_bundle(bundle, runner(context), levels="here", context=context)
    assert list(proved(proofs).values()) == ["this CPU"]


@needs_avx2
def test_a_library_that_refuses(make: Make, context: HostContext) -> None:
    bundle = with_libembed(make(), f"-DBROKEN={NEVER}")
    (bundle.directory / "lib/libembed.so").write_bytes(b"no library")
    with pytest.raises(ProofError, match=r"small/lib/libembed\.so \(level.*does not run.*\n.*too short"):
        prove_bundle(bundle, runner(context), levels="here", context=context)


@needs_avx2
def test_links_that_cannot_be_made_become_copies(
    make: Make, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, destination: str) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    found = proved(prove_bundle(make(library=True), runner(context), levels="here", context=context))
    assert found["avx"] == "this CPU, features restricted"


@needs_avx2
def test_a_static_program_is_proved_on_this_processor_alone(make: Make, context: HostContext) -> None:
    proofs = prove_bundle(make("-static"), runner(context), levels="here", context=context)
    assert list(proved(proofs).values()) == ["this CPU"]
    assert "cannot be hidden from embed: it does not load glibc" in proofs[0].reason


@needs_avx2
def test_a_program_that_fails_names_the_level(make: Make, context: HostContext) -> None:
    bundle = make(library=True)
    (bundle.directory / "lib/libonnxruntime.so.1").write_bytes(b"no library")
    with pytest.raises(ProofError, match=r"small \(level \w+, this CPU\) does not run.*\n?.*no library"):
        prove_bundle(bundle, runner(context), levels="here", context=context)


@needs_avx2
def test_a_bundle_for_processors_that_this_one_is_not(make: Make, context: HostContext) -> None:
    made = make()
    runtime = {**made.manifest["runtime"], "requires": ["avx2", "amx_of_tomorrow"]}
    bundle = Bundle(directory=made.directory, manifest={**made.manifest, "runtime": runtime})
    proofs = prove_bundle(bundle, runner(context), levels="here", isa=["avx2"], context=context)
    assert [proof.proved for proof in proofs] == [False]
    assert proofs[0].reason == "the bundle is for processors with amx_of_tomorrow, which this one lacks"


def test_quantized_models_may_round_as_the_processor_does(make: Make, context: HostContext) -> None:
    near = answering([[1.0, 0.05]] * 2)
    (proof,) = prove_bundle(make(content=b"#!"), near, levels="here", context=context)
    assert proof.proved and proof.min_cosine == pytest.approx(0.99875, abs=1e-5)


def exact(bundle: Bundle, digest: str) -> Bundle:
    model = {**bundle.manifest["model"], "vectors_sha256": digest}
    return Bundle(directory=bundle.directory, manifest={**bundle.manifest, "model": model})


def test_where_bits_are_the_same_everywhere_they_are_compared(make: Make, context: HostContext) -> None:
    right, off = [[1.0, 0.0]] * 2, [[1.0, 0.0], [1.0, 1e-9]]
    bundle = exact(make(content=b"#!"), digest_of(right))
    assert prove_bundle(bundle, answering(right), levels="here", context=context)[0].proved
    require_golden(bundle, lambda bundle, texts: right)
    with pytest.raises(ProofError, match="gives vectors of other bits than the manifest's digest says"):
        prove_bundle(bundle, answering(off), levels="here", context=context)
    with pytest.raises(ProofError, match="gives vectors of other bits here"):
        require_golden(bundle, lambda bundle, texts: off)
    require_golden(Bundle(directory=bundle.directory, manifest=manifest_of(None)), lambda bundle, texts: off)


@pytest.mark.parametrize(
    ("golden", "words"),
    [
        ("[[0, 1], [1, 0]]", "are not those that its program gives: cosine 0.00000"),
        ("[[1, 0, 0], [1, 0, 0]]", "of [2] dimensions, not 2 of [3]"),
        ("[[0, 0], [1, 0]]", "times as long as it should be"),
    ],
)
def test_golden_vectors_of_another_bundle_are_found(make: Make, golden: str, words: str) -> None:
    """Devices test themselves by them, and `diff` compares bundles that are not run by them."""
    bundle = make(content=b"#!")
    require_golden(bundle, lambda bundle, texts: [[1.0, 0.0]] * 2)
    (bundle.directory / "golden.json").write_text(f'{{"texts": ["a", "b"], "vectors": {golden}}}')
    with pytest.raises(BundleError) as refused:
        require_golden(bundle, lambda bundle, texts: [[1.0, 0.0]] * 2)
    assert words in refused.value.message


@pytest.mark.parametrize(
    "golden",
    ['{"texts": 7}', '{"texts": [], "vectors": []}', '{"texts": [7], "vectors": [[1]]}', '{"texts": ["a"], "vectors": [["1"]]}', '{"texts": ["a"], "vectors": 1}', "[]", "[" * 99999,
     '{"texts": ["a"], "vectors": [[1, 0]], "tolerance": -1}', '{"texts": ["a"], "vectors": [[1, 0]], "tolerance": "1"}', '{"texts": ["a"], "vectors": [[1, 0]], "tolerance": true}', '{"texts": {"a": 1}, "vectors": [[1]]}', '{"texts": ["a"], "vectors": [[1e400]]}', '{"texts": ["a"], "vectors": [[1%s]]}' % ("0" * 400), '{"texts": ["a"], "vectors": [[NaN]]}'],
)  # fmt: skip
def test_golden_texts_that_are_none_are_said_to_be_damaged(make: Make, golden: str) -> None:
    bundle = exact(make(content=b"#!"), "0" * 64)
    (bundle.directory / "golden.json").write_text(golden)
    with pytest.raises(BundleError, match=r"the golden vectors of .* cannot be read"):
        require_golden(bundle, lambda bundle, texts: [[1.0, 0.0]])


@pytest.mark.parametrize("number", [1e39, 10**40, "1"])
def test_a_number_that_float32_has_not_is_of_other_bits(make: Make, number: float) -> None:
    with pytest.raises(ProofError, match="gives vectors of other bits here"):
        require_golden(exact(make(content=b"#!"), ""), lambda bundle, texts: [[number, 0.0]])


def test_the_digest_is_that_of_the_bundles_own_program(make: Make) -> None:
    bundle = make(content=b"#!")
    made = with_exact_vectors(bundle, bundle, lambda bundle, texts: [[0.5, 0.25]] * len(texts))
    digest = hashlib.sha256(struct.pack("<4f", 0.5, 0.25, 0.5, 0.25)).hexdigest()
    assert made.manifest["model"]["vectors_sha256"] == digest
    assert json.loads((bundle.directory / "manifest.json").read_text()) == made.manifest

    def nowhere(bundle: Bundle, texts: Sequence[str]) -> list[list[float]]:
        raise CannotRunHere("no")

    assert with_exact_vectors(bundle, bundle, nowhere) is bundle
    exact = {**bundle.manifest["model"], "vectors_sha256": "0" * 64}
    require_golden(replace(bundle, manifest={**bundle.manifest, "model": exact}), nowhere)


def test_float_models_may_not(make: Make, context: HostContext) -> None:
    bundle = make(content=b"#!", precision="fp32")
    with pytest.raises(ProofError, match=r"cosine 0\.99875, at least 0\.99999 is required"):
        prove_bundle(bundle, answering([[1.0, 0.05]] * 2), levels="here", context=context)


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        ([[1.0, 0.0]], r"gave 1 vectors of \[2\] dimensions, not 2 of \[2\]"),
        ([[1.0, 0.0], [0.0, 0.0]], "zero"),
        ([[1.0, 0.0], [float("nan"), 0.0]], "not finite"),
    ],
)
def test_vectors_that_cannot_be_right(
    vectors: list[list[float]], said: str, make: Make, context: HostContext
) -> None:
    with pytest.raises(ProofError, match=said):
        prove_bundle(make(content=b"#!"), answering(vectors), levels="here", context=context)


def test_a_bundle_for_browsers_has_one_level(make: Make, context: HostContext) -> None:
    made = make(content=b"export {}")
    target = {"platform": {"arch": "wasm32"}}
    bundle = Bundle(directory=made.directory, manifest={**made.manifest, "target": target})
    (proof,) = prove_bundle(bundle, answering([[1.0, 0.0]] * 2), levels="all", context=context)
    assert (proof.level, proof.proved, proof.by) == ("wasm32", True, "this CPU")


@pytest.mark.parametrize(
    ("program", "version"), [("env", r"env \(.+\) \d.*"), ("no-such-program", "no-such-program")]
)
def test_what_of_the_host_runs_a_bundle_is_named_with_its_version(
    program: str, version: str, make: Make, context: HostContext
) -> None:
    made = make(content=b"export {}")
    named = {**made.manifest["runner"], "command": [program, "embed", "--jsonl"]}
    target = {**made.manifest["target"]}
    target["platform"] = {**target["platform"], "has": [program]}
    bundle = Bundle(directory=made.directory, manifest={**made.manifest, "runner": named, "target": target})
    (proof,) = prove_bundle(bundle, answering([[1.0, 0.0]] * 2), levels="here", context=context)
    assert re.fullmatch(version, proof.by)


def test_a_bundle_for_a_gpu_that_is_not_here(make: Make, context: HostContext) -> None:
    made = make(content=b"\x7fELF")
    runtime = {"library": "embed", "provider": {"name": "CUDAExecutionProvider"}}
    bundle = Bundle(directory=made.directory, manifest=manifest_of(runtime))
    absent = answering(CannotRunHere("there is no driver", instead=[[1.0, 0.0]] * 2))
    (proof,) = prove_bundle(bundle, absent, levels="here", context=context)
    assert (proof.level, proof.proved) == ("CUDAExecutionProvider", False)
    assert proof.reason == "there is no driver"


def test_a_program_without_a_runtime_of_ours_is_run_as_it_is(make: Make, context: HostContext) -> None:
    made = make(content=ARM64)
    bundle = Bundle(directory=made.directory, manifest=manifest_of(None))
    (proof,) = prove_bundle(bundle, answering([[1.0, 0.0]] * 2), levels="all", context=context)
    assert proof.proved and proof.level == "this CPU"
    assert proof.by == ("an emulated aarch64" if platform.machine() != "aarch64" else "this CPU")


def test_golden_vectors_that_are_damaged(make: Make, context: HostContext) -> None:
    bundle = make(content=b"#!")
    (bundle.directory / "golden.json").write_text("{}")
    with pytest.raises(BundleError, match="golden vectors of small cannot be read"):
        prove_bundle(bundle, answering([]), levels="here", context=context)


@pytest.mark.skipif(platform.machine() == "aarch64", reason="arm64 is this machine's own")
def test_another_architecture_is_emulated(
    make: Make, context: HostContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    qemu = tmp_path / "qemu"
    answer = """while read line; do echo '{"embedding": [1, 0]}'; done"""
    qemu.write_text(f'#!/bin/sh\n[ "$3" = -L ] || exit 3\n{answer}\n')
    qemu.chmod(0o755)
    emulator = Qemu(program=qemu, version="10.0", libc=tmp_path)
    monkeypatch.setattr(by_level, "find_emulator", lambda arch, context: emulator)
    proofs = prove_bundle(make(content=ARM64), runner(context), levels="here", context=context)
    assert proved(proofs) == {
        "neon": "qemu 10.0, cortex-a53",
        "dotprod": "qemu 10.0, neoverse-n1",
        "i8mm": "qemu 10.0, max",
    }


@pytest.mark.skipif(platform.machine() == "aarch64", reason="arm64 is this machine's own")
def test_another_architecture_without_an_emulator(
    make: Make, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(arch: str, context: HostContext) -> Qemu:
        raise MissingToolError("qemu is not installed", hint="install it")

    monkeypatch.setattr(by_level, "find_emulator", none)
    with pytest.raises(MissingToolError, match="small is for aarch64 and is proved under an emulator"):
        prove_bundle(make(content=ARM64), runner(context), levels="here", context=context)


def test_what_the_program_said_is_passed_on(make: Make, context: HostContext) -> None:
    bundle = make(content=b"#!")
    for error in (ToolError("embed failed: no kernel"), ProofError("embed failed: no kernel")):
        with pytest.raises(ProofError, match=r"small \(this CPU\) does not run: embed failed: no kernel"):
            prove_bundle(bundle, answering(error), levels="here", context=context)


@needs_avx2
def test_a_name_of_the_bundles_own_is_not_written_through(make: Make, context: HostContext) -> None:
    """A stranger's bundle had its golden vectors overwritten, and was verified."""
    bundle = make()
    (bundle.directory / HIDER).symlink_to("golden.json")
    before = (bundle.directory / "golden.json").read_bytes()
    folder = module.masked_copy(bundle, module.unsealed, context).directory
    assert (bundle.directory / "golden.json").read_bytes() == before
    assert not (folder / HIDER).is_symlink()


@needs_avx2
def test_what_answers_for_the_processor_lies_in_the_copy_alone(make: Make, context: HostContext) -> None:
    bundle = make()
    folder = module.masked_copy(bundle, module.unsealed, context).directory
    assert (folder / HIDER).is_file() and not (bundle.directory / HIDER).exists()
    assert (folder / "embed").stat().st_size == bundle.program.stat().st_size
    assert (folder / "embed").read_bytes() != bundle.program.read_bytes()
    assert (folder / "golden.json").samefile(bundle.directory / "golden.json")
    done = subprocess.run([folder / "embed"], input=b"\n", capture_output=True)
    assert done.returncode == -4, "without an answer, the copy ends on an invalid instruction"
