"""The proof runs in a process that has nothing but what is shipped, and for each kind of processor."""

import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgepack.context import BuildContext
from edgepack.errors import MissingToolError, ProofError
from edgepack.foundry.feature_levels import processor_flags
from edgepack.foundry.proof import by_level
from edgepack.foundry.proof import prove as module
from edgepack.foundry.proof.by_level import Way
from edgepack.foundry.proof.cpuid import replace_cpuid
from edgepack.foundry.proof.emulator import Qemu
from edgepack.foundry.proof.harness import prover
from edgepack.foundry.proof.prove import nearness, prove, prove_file, token_ids
from edgepack.foundry.releases.registry import RELEASE
from edgepack.plugins.context import HostContext
from edgepack.records.model import ModelSource, Pooling, PreparedModel
from edgepack.records.operators import Operators
from edgepack.records.runtime import RuntimeArtifact

pytestmark = pytest.mark.tools("env", may=("gcc", "g++"))

Shipped = tuple[PreparedModel, RuntimeArtifact]

PROVER = """\
#!/bin/sh
# As the proof's program is called: LIBRARY MODEL OUTPUT DIMENSION INPUTS IDS IDS; the model says what it answers.
[ -z "$HOME" ] || { echo "it runs with nothing in its environment" >&2; exit 1; }
[ "$3 $4 $5" = "out 3 input_ids,attention_mask" ] || { echo "not these arguments: $*" >&2; exit 1; }
case $(cat "$2") in *lacks*) echo "Failed to find kernel for com.microsoft.QAttention(1) (node Attention_0)" >&2; exit 1;; esac
cat "$2" "$2"
"""
QEMU = """\
#!/bin/sh
# As qemu is called: -cpu PROCESSOR -L FOLDER PROGRAM LIBRARY MODEL OUTPUT DIMENSION INPUTS IDS...
[ "$2" = "{lacking}" ] && {{ echo "qemu: uncaught target signal 4 (Illegal instruction)" >&2; exit 132; }}
[ "$3" = "-L" ] && [ -d "$4" ] && [ "$9" = 3 ] || exit 9
echo "0x1.3333333333333p-1 0x0p+0 0x1.999999999999ap-1"
echo "0x1.3333333333333p-1 0x0p+0 0x1.999999999999ap-1"
"""
ARM64 = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\xb7\x00"
FAKE_RUNTIME = Path(__file__).with_name("fake_runtime.c")


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shipped:
    """A model whose vector the stock library says is (0.6, 0, 0.8), on a processor of the lowest kind."""
    (tmp_path / "prove").write_text(PROVER)
    (tmp_path / "prove").chmod(0o755)
    monkeypatch.setattr(module, "prover", lambda arch, context: tmp_path / "prove")
    monkeypatch.setattr(module, "_stock", lambda model, texts: expected([0.6, 0.0, 0.8], texts))
    monkeypatch.setattr(by_level, "processor_flags", lambda: frozenset({"sse2", "asimd"}))
    source = ModelSource(
        name="small",
        origin="test",
        directory=tmp_path,
        weights=None,
        onnx=None,
        tokenizer=tmp_path / "tokenizer.json",
        config={},
        pooling=Pooling(),
        max_length=16,
        dimension=3,
    )
    model = PreparedModel(
        file=tmp_path / "model.ort",
        format="ort",
        precision="fp32",
        recipe="none",
        needs=Operators(),
        source=source,
        inputs=("input_ids", "attention_mask"),
    )
    runtime = RuntimeArtifact(
        library=tmp_path / "libonnxruntime.so.1.21.0",
        version="1.21.0",
        kind="minimal",
        provides=Operators(),
        toolchain="none",
    )
    runtime.file.write_bytes(b"")
    return model, runtime


def expected(vector: list[float], texts: list[list[int]]) -> module._Expected:
    inputs = ("input_ids", "attention_mask")
    return module._Expected(inputs=inputs, output="out", texts=texts, vectors=[vector] * len(texts))


def test_a_model_that_runs(shipped: Shipped, context: HostContext) -> None:
    model, runtime = shipped
    model.file.write_text("0x1.3333333333333p-1 0x0p+0 0x1.999999999999ap-1\n")
    proofs = prove(model, runtime, context=context)
    assert proofs[0].proved and proofs[0].by == "this CPU" and proofs[0].min_cosine > 0.999999
    assert not any(proof.proved for proof in proofs[1:])
    assert all("this CPU" in proof.reason for proof in proofs[1:])


def test_a_missing_kernel_is_named(shipped: Shipped, context: HostContext) -> None:
    model, runtime = shipped
    model.file.write_text("lacks")
    with pytest.raises(ProofError, match=r"model\.ort does not run.*com\.microsoft\.QAttention"):
        prove(model, runtime, context=context)


@pytest.mark.parametrize(
    ("vector", "said"),
    [
        ("0x1p+0", r"vectors of \[1\] dimensions, not 2 of \[3\]"),
        ("0x0p+0 0x0p+0 0x0p+0", "zero"),
        ("nan 0x1p+0 0x1p+0", "not finite"),
        (f"{(0.62).hex()} 0x0p+0 {(0.7846).hex()}", r"differ from the stock library's: cosine 0\.99968"),
    ],
)
def test_vectors_that_cannot_be_right(vector: str, said: str, shipped: Shipped, context: HostContext) -> None:
    model, runtime = shipped
    model.file.write_text(f"{vector}\n")
    with pytest.raises(ProofError, match=said):
        prove(model, runtime, context=context)


def foreign(shipped: Shipped, monkeypatch: pytest.MonkeyPatch, *, lacking: str = "-") -> Shipped:
    """The same for arm64, with an emulator that answers as one of its processors ``lacking`` an instruction would."""
    model, runtime = shipped
    model.file.write_text("")
    runtime.file.write_bytes(ARM64)
    program = runtime.file.with_name("qemu-aarch64")
    program.write_text(QEMU.format(lacking=lacking))
    program.chmod(0o755)
    emulator = Qemu(program=program, version="10.0", libc=program.parent)
    monkeypatch.setattr(by_level, "find_emulator", lambda arch, context: emulator)
    monkeypatch.setattr(module, "prover", lambda arch, context: Path("/prove"))
    return shipped


@pytest.mark.skipif(platform.machine() == "aarch64", reason="arm64 is this machine's own")
def test_another_architecture_is_emulated(
    shipped: Shipped, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    proofs = prove(*foreign(shipped, monkeypatch), context=context)
    assert [(proof.level, proof.proved, proof.by) for proof in proofs] == [
        ("neon", True, "qemu 10.0, cortex-a53"),
        ("dotprod", True, "qemu 10.0, neoverse-n1"),
        ("i8mm", True, "qemu 10.0, max"),
    ]


@pytest.mark.skipif(platform.machine() == "aarch64", reason="arm64 is this machine's own")
def test_an_instruction_that_a_processor_lacks(
    shipped: Shipped, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign(shipped, monkeypatch, lacking="neoverse-n1")
    with pytest.raises(ProofError, match=r"\(level dotprod, qemu 10\.0, neoverse-n1\).*Illegal instruction"):
        prove(*shipped, context=context)


@pytest.mark.skipif(platform.machine() == "aarch64", reason="arm64 is this machine's own")
def test_another_architecture_without_an_emulator(
    shipped: Shipped, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign(shipped, monkeypatch)

    def none(arch: str, context: BuildContext) -> Qemu:
        raise MissingToolError("qemu is not installed", hint="install it")

    monkeypatch.setattr(by_level, "find_emulator", none)
    with pytest.raises(MissingToolError, match=r"for aarch64 and is proved under an emulator.*not installed"):
        prove(*shipped, context=context)


def test_texts_stay_within_a_small_vocabulary() -> None:
    assert {max(text) < 50 for text in token_ids(50)} == {True}
    assert token_ids(30522)[0] == [101, 1000, 102]


def test_the_worst_of_several_vectors_counts() -> None:
    assert nearness([[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.0, 1.0]]) == pytest.approx(0.8)


@pytest.fixture
def fake_library(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[float]], Path]:
    """A C library that offers what the proof's program calls and answers what cpuid says; the model beside it."""
    monkeypatch.setenv("EDGEPACK_TOOLCHAIN", "gcc")
    library = tmp_path / "libonnxruntime.so"
    command = ["gcc", "-O1", "-shared", "-fPIC", str(FAKE_RUNTIME), "-o", str(library)]
    subprocess.run(command, check=True)
    (tmp_path / "model.ort").write_text("runs")

    def stock(vector: list[float]) -> Path:
        monkeypatch.setattr(module, "_stock", lambda model, texts: expected(vector, texts))
        return library

    return stock


needs_gcc = pytest.mark.skipif(
    shutil.which("gcc") is None or platform.machine() != "x86_64", reason="needs gcc on x86-64"
)


@needs_gcc
def test_a_processor_that_hides_what_it_has(
    fake_library: Callable[[list[float]], Path], context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = fake_library([1.0, 3.0, 0.0, 0.0, 0.0])
    proof = module._Proof(
        model=library.with_name("model.ort"),
        library=library,
        arch="x86_64",
        tolerance=0.999999,
        expected=module._stock(library, [[1, 2, 3]]),
        context=context,
    )
    sse2, avx, avx2 = (
        Way(level=level.name, by="this CPU, features restricted", hidden=level.hidden_bits())
        for level in RELEASE.feature_levels.on("x86_64")[:3]
    )
    assert module._attempt(proof, sse2) == pytest.approx(1.0)
    if "avx2" not in processor_flags():
        return
    with pytest.raises(ProofError, match=r"level avx, this CPU, features restricted.*differ"):
        module._attempt(proof, avx)
    fake_library([1.0, 3.0, 1.0, 1.0, 0.0])
    hidden = replace(proof, expected=module._stock(library, [[1, 2, 3]]))
    assert module._attempt(hidden, avx2) == pytest.approx(1.0)


@needs_gcc
def test_a_library_that_is_none(fake_library: Callable[[list[float]], Path], context: HostContext) -> None:
    library = fake_library([1.0])
    library.write_bytes(b"no library")
    with pytest.raises(ProofError, match=r"does not run on libonnxruntime.*(invalid ELF header|too short)"):
        prove_file(library.with_name("model.ort"), library, context=context)


@needs_gcc
def test_the_proofs_program_names_a_missing_kernel(
    fake_library: Callable[[list[float]], Path], context: HostContext
) -> None:
    library = fake_library([1.0, 3.0, 0.0, 0.0, 0.0])
    (library.parent / "model.ort").write_text("lacks")
    command: list[str | Path] = [
        prover("x86_64", context=context),
        library,
        library.parent / "model.ort",
        "out",
        "5",
        "a",
        "1,2",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "com.microsoft.QAttention" in done.stderr


@needs_gcc
def test_a_library_that_cannot_be_limited(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.c").write_text("int f(void) { return 1; }")
    subprocess.run(["gcc", "-shared", "-fPIC", "a.c", "-o", "liba.so"], cwd=tmp_path, check=True)
    with pytest.raises(ProofError, match=r"liba\.so does not ask what the processor has"):
        replace_cpuid(tmp_path / "liba.so", tmp_path / "copy.so")


def test_a_library_made_for_some_processors(
    shipped: Shipped, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = shipped
    model.file.write_text("0x1.3333333333333p-1 0x0p+0 0x1.999999999999ap-1\n")
    library = shipped[1].file
    proofs = prove_file(model.file, library, isa=("sse2", "avx2"), context=context)
    if platform.machine() == "x86_64":
        assert [proof.level for proof in proofs] == ["sse2", "avx2"]
