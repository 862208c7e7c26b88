"""One digest of a plan's vectors, whatever the processor's level, the threads and the neighbours; and the digest is the one that it was.

``benchmarks/same_bits.py`` asks the same of a model and 4,200 texts.
"""

import ctypes
import hashlib
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import same_bits
from tests.fuzz.plans import sound_plans
from tests.support import engine_kernels, engine_session
from tests.support.berts import Tokens
from tests.support.once import made_once

from edgepack.plugins.context import HostContext
from edgepack_engine.plan import Plan, write_plan

EMULATORS = tuple(f"qemu-{name}{kind}" for name in ("aarch64", "arm", "riscv64") for kind in ("", "-static"))
pytestmark = [
    pytest.mark.tools("python", may=EMULATORS),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for x86-64"),
]
LENGTHS = (17, 1, 130, 33, 3)
DIGESTS = {
    "encoder": "d62b618143ed911d",
    "decoder": "2d524460c7126458",
    "other": "3f96cb4ea9312b03",
    "behind": "b07298c491585671",
}
"""Of the vectors of texts of LENGTHS. Another one is another arithmetic: an index of before no longer serves, and ARITHMETIC in
builder.py says so by its number."""


def plans() -> dict[str, Plan]:
    return dict(zip(DIGESTS, sound_plans(), strict=True))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return (
        made_once(
            tmp_path_factory,
            "engine-session",
            lambda folder: engine_session.compile_session(folder / "session.so"),
        )
        / "session.so"
    )


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A mutant, of test_mutants.py.
    if given := os.environ.get(engine_kernels.LIBRARY):
        return Path(given)
    return (
        made_once(
            tmp_path_factory,
            "engine-kernels",
            lambda folder: engine_kernels.compile_kernels(folder / "kernels.so"),
        )
        / "kernels.so"
    )


def texts() -> Tokens:
    chance = np.random.default_rng(3)
    mask = (np.arange(max(LENGTHS))[None] < np.array(LENGTHS)[:, None]).astype(np.int64)
    return Tokens(ids=chance.integers(0, 30, mask.shape) * mask, mask=mask, types=np.zeros_like(mask))


def digest(vectors: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(vectors, "<f4").tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("name", DIGESTS)
@pytest.mark.parametrize("level", engine_kernels.NEEDS)
def test_one_digest(session: Path, kernels: Path, tmp_path: Path, level: str, name: str) -> None:
    if not engine_kernels.has_level(level):
        pytest.skip(f"this processor has no {engine_kernels.NEEDS[level]}")
    if not engine_kernels.is_in(kernels, level):
        pytest.skip("a mutant of another level")
    plan, tokens = plans()[name], texts()
    write_plan(plan, tmp_path / "plan")
    table = ctypes.addressof(engine_kernels.level_of(kernels, level))

    def vectors(tokens: Tokens, threads: int = 1) -> Any:
        return engine_session.session_vectors(
            session,
            tmp_path / "plan",
            tokens,
            dimension=plan.dimension,
            threads=threads,
            kernels=table,
        )

    rows = [
        Tokens(**{part: getattr(tokens, part)[row : row + 1] for part in ("ids", "mask", "types")})
        for row in range(len(LENGTHS))
    ]
    assert digest(vectors(tokens)) == DIGESTS[name]
    assert digest(vectors(tokens, threads=2)) == DIGESTS[name]
    assert digest(np.concatenate([vectors(row, threads=2) for row in rows])) == DIGESTS[name]


@pytest.mark.slow  # qemu, and compiles for other processors
@pytest.mark.parametrize(
    ("arch", "level"), [(arch, level) for arch in same_bits.EMULATED for level in same_bits.LEVELS[arch]]
)
def test_one_digest_of_other_processors(
    tmp_path: Path, shared_context: HostContext, arch: str, level: str
) -> None:
    emulator = same_bits.emulator_of(arch, shared_context)
    if emulator is None:
        pytest.skip(f"no emulator of {arch}")
    program = tmp_path / "program"
    same_bits.compiled(program, same_bits.TRIPLES[arch][0])
    tokens = texts()
    lines = [" ".join(map(str, ids[mask == 1])) for ids, mask in zip(tokens.ids, tokens.mask, strict=True)]
    (tmp_path / "ids").write_text("".join(f"{line}\n" for line in lines))
    for name, plan in plans().items():
        write_plan(plan, tmp_path / "plan")
        for batch, threads in ((1, 1), (32, 2)):
            command = [
                *emulator,
                program,
                tmp_path / "plan",
                tmp_path / "ids",
                level,
                str(batch),
                str(threads),
            ]
            made = subprocess.run(command, check=True, capture_output=True).stdout
            assert hashlib.sha256(made).hexdigest()[:16] == DIGESTS[name]
