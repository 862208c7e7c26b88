"""Real bundles are proved by their own programs: a kernel that is broken in what ships is found, at its level."""

import shutil
from pathlib import Path

import pytest

from edgepack.errors import ProofError
from edgepack.foundry.feature_levels import level_of, processor_flags
from edgepack.foundry.linkmap import read_link_map
from edgepack.foundry.processors.disassembler import disassembler
from edgepack.foundry.processors.x86_64 import CAPSTONE
from edgepack.foundry.releases.registry import RELEASE
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.verifier.proofs import prove_bundle
from edgepack.verifier.run import BundleRunner

AVX2_GEMM = "QgemmU8X8KernelAvx2"
"""The int8 matrix product that MLAS chooses on processors with AVX2 and nothing better."""
MULTIPLY, SHUFFLE = 0x04, 0x00
"""Opcodes of vpmaddubsw and of vpshufb, whose encodings differ in nothing else."""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif("avx2" not in processor_flags(), reason="this processor has no AVX2"),
]


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["native", "frozen", "library"])
def test_a_bundle_is_proved_on_its_own_files(
    kind: str, request: pytest.FixtureRequest, shared_context: HostContext
) -> None:
    bundle: Bundle = request.getfixturevalue(f"{kind}_bundle")
    proofs = prove_bundle(
        bundle, BundleRunner(context=shared_context).at, levels="here", context=shared_context
    )
    here = {level.name for level in RELEASE.feature_levels.on("x86_64") if level.runs_on(processor_flags())}
    assert {proof.level for proof in proofs if proof.proved} == here
    assert all(proof.min_cosine > 0.999 for proof in proofs if proof.proved)
    assert all(proof.reason for proof in proofs if not proof.proved)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["embed", "lib/libembed.so"])
def test_a_kernel_that_is_broken_in_one_shipped_file(
    file: str, library_bundle: Bundle, shared_context: HostContext, tmp_path: Path
) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(library_bundle.directory, folder)
    break_kernel(folder / file, shared_context.store.root)
    broken = Bundle(directory=folder, manifest=library_bundle.manifest)
    run = BundleRunner(context=shared_context).at
    with pytest.raises(ProofError, match=r"\(level avx2, this CPU.*differ.*cosine -?0\.[0-8]"):
        prove_bundle(broken, run, levels="here", context=shared_context)
    levels = RELEASE.feature_levels.on("x86_64")
    if level_of(levels, processor_flags()).name == "avx2":
        return  # the program as it is runs at this level too, and always runs first
    others = [level.name for level in levels if level.name != "avx2"]
    proofs = prove_bundle(broken, run, levels="here", isa=others, context=shared_context)
    assert {"sse2", "avx"} <= {proof.level for proof in proofs if proof.proved}


def break_kernel(file: Path, store: Path) -> None:
    """Let the AVX2 kernel shuffle bytes where it is to multiply them; the linker's map in the store says where it is."""
    content = bytearray(file.read_bytes())
    linked = next(
        place.parent for place in store.glob(f"program/*/{file.name}") if place.read_bytes() == bytes(content)
    )
    (kernel,) = (
        piece for piece in read_link_map(linked / "link.map") if AVX2_GEMM in piece.file and piece.size
    )
    start = kernel.address - text_shift(file)
    code = bytes(content[start : start + kernel.size])
    broken = 0
    for at, _, name, operands in disassembler(*CAPSTONE).disasm_lite(code, start):
        if name == "vpmaddubsw" and operands.startswith("ymm"):
            assert content[at + 3] == MULTIPLY
            content[at + 3] = SHUFFLE
            broken += 1
    assert broken > 100
    file.write_bytes(content)


def text_shift(file: Path) -> int:
    """How far code's addresses are from its places in the file."""
    from elftools.elf.elffile import ELFFile

    with file.open("rb") as stream:
        text = ELFFile(stream).get_section_by_name(".text")
        assert text is not None
        return int(text["sh_addr"] - text["sh_offset"])
