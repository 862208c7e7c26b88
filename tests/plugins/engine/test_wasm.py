"""The engine's WebAssembly module: it imports nothing, has the bits of every other platform, and says what is wrong with a plan."""

import hashlib
import platform
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import brotli
import numpy as np
import pytest
from benchmarks import same_bits
from tests.plugins.engine.test_bits import DIGESTS, plans, texts

from edgepack.plugins.context import HostContext
from edgepack_engine.plan import Buffer, Operation, Plan, Pooled, Rows, Step, write_plan
from edgepack_engine.wasm import FORMS, MODULE, RELAXED, wasm_module
from edgepack_web.foundry.binary import IMPORT, sections
from edgepack_web.npm.node import find_node

pytestmark = [
    pytest.mark.tools("node", "zig"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="zig of this machine"),
]
LARGEST = {MODULE: 26_000, RELAXED: 28_000}
"""Bytes under brotli."""
SCRIPT = Path(same_bits.__file__).with_suffix(".mjs")


@pytest.fixture(scope="module")
def folder(shared_context: HostContext) -> Path:
    return wasm_module(context=shared_context)


@pytest.fixture(scope="module")
def module(folder: Path) -> Path:
    return folder / MODULE


def skip_unless_taken(form: str) -> None:
    """Node has relaxed SIMD from 22 on."""
    asked: list[str | Path] = [find_node(), "-p", "process.versions.node"]
    version = subprocess.run(asked, capture_output=True, encoding="utf-8", check=True).stdout
    if form == RELAXED and int(version.partition(".")[0]) < 22:
        pytest.skip(f"Node {version.strip()} has no relaxed SIMD")


def run(plan: Path, ids: Path, module: Path, batch: int = 32) -> subprocess.CompletedProcess[bytes]:
    command: list[str | Path] = [find_node(), SCRIPT, plan, ids, module, str(batch), "1"]
    return subprocess.run(command, capture_output=True, check=False)


@pytest.fixture
def ids(tmp_path: Path) -> Path:
    tokens = texts()
    lines = [" ".join(map(str, ids[mask == 1])) for ids, mask in zip(tokens.ids, tokens.mask, strict=True)]
    (tmp_path / "ids").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "ids"


@pytest.mark.parametrize(("seldom", "more"), [(False, 0), (True, 2_000)])
def test_it_imports_nothing_and_is_small(shared_context: HostContext, seldom: bool, more: int) -> None:
    folder = wasm_module(seldom=seldom, context=shared_context)
    for form, largest in LARGEST.items():
        content = (folder / form).read_bytes()
        assert IMPORT not in {section.id for section in sections(content)}
        assert len(brotli.compress(content, quality=11, lgwin=24)) <= largest + more


def test_the_licences_of_what_is_in_it_lie_beside_it(module: Path) -> None:
    names = {file.name: file.read_text() for file in module.with_name("licenses").iterdir()}
    assert set(names) == {"libc++.txt", "wasi-libc.txt"}
    assert "Apache License" in names["libc++.txt"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch", [1, 32])
@pytest.mark.parametrize("name", DIGESTS)
def test_the_bits_of_every_other_platform(
    folder: Path, ids: Path, tmp_path: Path, name: str, batch: int, form: str
) -> None:
    skip_unless_taken(form)
    write_plan(plans()[name], tmp_path / "plan")
    made = run(tmp_path / "plan", ids, folder / form, batch)
    assert made.returncode == 0, made.stderr.decode()
    assert hashlib.sha256(made.stdout).hexdigest()[:16] == DIGESTS[name]


def narrow(plan: Plan, seed: int) -> Plan:
    """The plan with weights as recipes for small downloads have them: 7 bits, but for a few."""
    chance, steps = np.random.default_rng(seed), []
    for step in plan.steps:
        if step.operation == Operation.PRODUCT:
            found = step.tensors[0]
            assert found is not None
            weights = np.clip(found, -64, 63)
            for value in (127, -128, 64, -65):
                weights.flat[chance.integers(0, weights.size, max(weights.size // 4000, 1))] = value
            # Both ends of a range in one row of bytes, and of the first and the last column.
            weights[0, 0, 0], weights[-1, -1, -1] = -64, 63
            sums = weights.sum(axis=(1, 3), dtype=np.int32).reshape(-1)
            step = replace(step, tensors=[weights, sums, *step.tensors[2:]])
        steps.append(step)
    return replace(plan, steps=tuple(steps))


@pytest.mark.parametrize("name", DIGESTS)
def test_weights_of_7_bits_and_a_few_others_give_the_same_bits(
    folder: Path, ids: Path, tmp_path: Path, name: str
) -> None:
    skip_unless_taken(RELAXED)
    for seed in range(3):
        write_plan(narrow(plans()[name], seed), tmp_path / "plan")
        plain, relaxed = (run(tmp_path / "plan", ids, folder / form) for form in (MODULE, RELAXED))
        assert relaxed.returncode == plain.returncode == 0, relaxed.stderr.decode()
        assert relaxed.stdout == plain.stdout


def test_a_plan_that_is_none_is_said_to_be_damaged(module: Path, ids: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    write_plan(plans()["encoder"], plan)
    whole = plan.read_bytes()
    beyond = bytearray(whole)
    beyond[56:64] = (1 << 40).to_bytes(8, "little")  # where its steps are
    for content in (whole[:-64], whole[:10], b"\0" * 4096, bytes(beyond)):
        plan.write_bytes(content)
        made = run(plan, ids, module)
        assert made.returncode == 1
        assert made.stdout == b""
        assert b"BundleError" in made.stderr
        assert b": the plan is damaged: it is not the plan that was made, in which " in made.stderr


def wide_plan() -> Plan:
    """Four megabytes of numbers a token, kept: 1,025 tokens are more than 32 bits count."""
    wide, pooled = Buffer(width=(1 << 20) - 64), Buffer(width=16)
    table: list[Any] = [np.zeros((1, wide.width), np.int8), np.ones(1, "<f4")]
    first = Step(
        operation=Operation.LOOKUP,
        inputs=(int(Rows.TYPES),),
        outputs=[wide],
        sizes=(wide.width, 1, 0, 0),
        tensors=table,
    )
    text = Step(
        operation=Operation.POOL,
        inputs=(wide,),
        outputs=[pooled],
        sizes=(int(Pooled.FIRST), 16, 0),
        tensors=[],
    )
    return Plan(steps=(first,), pooled=(text,), vector=pooled, dimension=16, longest=2048)


def test_a_plan_whose_numbers_have_more_bytes_than_an_address_counts(module: Path, tmp_path: Path) -> None:
    write_plan(wide_plan(), tmp_path / "plan")
    (tmp_path / "ids").write_text(" ".join(["1"] * 1025) + "\n")
    made = run(tmp_path / "plan", tmp_path / "ids", module)
    assert made.returncode == 1 and made.stdout == b""
    assert "RuntimeError: so many tokens at once take more memory" in made.stderr.decode()
    (tmp_path / "ids").write_text("1 1 1\n")
    assert run(tmp_path / "plan", tmp_path / "ids", module).returncode == 0


def test_tokens_that_the_plan_does_not_take(module: Path, tmp_path: Path) -> None:
    plan, ids = plans()["encoder"], tmp_path / "ids"
    write_plan(plan, tmp_path / "plan")
    ids.write_text(" ".join(["1"] * (plan.longest + 1)) + "\n")
    made = run(tmp_path / "plan", ids, module)
    assert f"RuntimeError: the plan is for texts of {plan.longest} tokens" in made.stderr.decode()
    # No row of a table is beyond its end, whatever the number.
    ids.write_text("4294967295 1\n")
    assert run(tmp_path / "plan", ids, module).returncode == 0
