"""The engine's WebAssembly module: it imports nothing, has the bits of every other platform, and says what is wrong with a plan."""

import hashlib
import platform
import subprocess
from pathlib import Path

import brotli
import pytest
from benchmarks import same_bits
from tests.plugins.engine.test_bits import DIGESTS, plans, texts

from edgepack.plugins.context import HostContext
from edgepack_engine.plan import write_plan
from edgepack_engine.wasm import MODULE, wasm_module
from edgepack_web.foundry.binary import IMPORT, sections
from edgepack_web.npm.node import find_node

pytestmark = [
    pytest.mark.tools("node", "zig"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="zig of this machine"),
]
LARGEST = 26_000
"""Bytes under brotli."""
SCRIPT = Path(same_bits.__file__).with_suffix(".mjs")


@pytest.fixture(scope="module")
def module(shared_context: HostContext) -> Path:
    return wasm_module(context=shared_context) / MODULE


def run(plan: Path, ids: Path, module: Path, batch: int = 32) -> subprocess.CompletedProcess[bytes]:
    command: list[str | Path] = [find_node(), SCRIPT, plan, ids, module, str(batch), "1"]
    return subprocess.run(command, capture_output=True, check=False)


@pytest.fixture
def ids(tmp_path: Path) -> Path:
    tokens = texts()
    lines = [" ".join(map(str, ids[mask == 1])) for ids, mask in zip(tokens.ids, tokens.mask, strict=True)]
    (tmp_path / "ids").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "ids"


@pytest.mark.parametrize(("seldom", "largest"), [(False, LARGEST), (True, LARGEST + 2_000)])
def test_it_imports_nothing_and_is_small(shared_context: HostContext, seldom: bool, largest: int) -> None:
    module = wasm_module(seldom=seldom, context=shared_context) / MODULE
    assert IMPORT not in {section.id for section in sections(module.read_bytes())}
    assert len(brotli.compress(module.read_bytes(), quality=11, lgwin=24)) <= largest


def test_the_licences_of_what_is_in_it_lie_beside_it(module: Path) -> None:
    names = {file.name: file.read_text() for file in module.with_name("licenses").iterdir()}
    assert set(names) == {"libc++.txt", "wasi-libc.txt"}
    assert "Apache License" in names["libc++.txt"]


@pytest.mark.parametrize("batch", [1, 32])
@pytest.mark.parametrize("name", DIGESTS)
def test_the_bits_of_every_other_platform(
    module: Path, ids: Path, tmp_path: Path, name: str, batch: int
) -> None:
    write_plan(plans()[name], tmp_path / "plan")
    made = run(tmp_path / "plan", ids, module, batch)
    assert made.returncode == 0, made.stderr.decode()
    assert hashlib.sha256(made.stdout).hexdigest()[:16] == DIGESTS[name]


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


def test_tokens_that_the_plan_does_not_take(module: Path, tmp_path: Path) -> None:
    plan, ids = plans()["encoder"], tmp_path / "ids"
    write_plan(plan, tmp_path / "plan")
    ids.write_text(" ".join(["1"] * (plan.longest + 1)) + "\n")
    made = run(tmp_path / "plan", ids, module)
    assert f"RuntimeError: the plan is for texts of {plan.longest} tokens" in made.stderr.decode()
    # No row of a table is beyond its end, whatever the number.
    ids.write_text("4294967295 1\n")
    assert run(tmp_path / "plan", ids, module).returncode == 0
