"""A newcomer's trial, as far as a machine can do it: four models of one's own, and wrong commands, by the command line alone."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import edgepack
from tests.support.newcomers import graph_alone, llama_table, odd_widths, with_dense
from tests.support.static_models import WIDTH

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

MODELS: dict[str, tuple[Callable[[Path], Path], str, int]] = {
    # The table's program is compiled in seconds; what others need of ONNX Runtime may take minutes.
    "llama_table": (llama_table, "linux-x86-static", WIDTH),
    "graph_alone": (graph_alone, "linux-x86-fast", 32),
    "odd_widths": (odd_widths, "linux-x86-fast", 312),
    "with_dense": (with_dense, "linux-x86-fast", 64),
}
"""Each with the target that it should end on, and how many numbers its vectors have."""
ASKED = ("linux-x86-fast", "linux-x86-static", "linux-x64-cuda")
"""Targets whose word is tried where it is no: each refuses in seconds."""


def inspected(model: Path) -> tuple[dict[str, Any], str]:
    """The rows of targets by name, and what people are shown."""
    told = [edgepack("inspect", str(model), *more, env={"COLUMNS": "100"}) for more in (("--json",), ())]
    for done in told:
        assert done.returncode == 0, done.stderr
    rows = {row["target"]: row for row in json.loads(told[0].stdout)["targets"]}
    return rows, told[1].stdout


def failure(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """The two lines that a failure ends with, of which there is one pair."""
    assert "Traceback" not in done.stderr and done.stdout == "", done.stderr
    lines = done.stderr.splitlines()
    errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    assert len(errors) == 1 and lines[-1].startswith("hint: "), done.stderr
    return lines[errors[0]].removeprefix("error: "), lines[-1].removeprefix("hint: ")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_what_inspect_says_is_what_happens(name: str, tmp_path: Path) -> None:
    """Which target, and will it take my model? Refusals are foretold, their remedies are taken, and leave nothing behind."""
    write, ends_on, _ = MODELS[name]
    model = write(tmp_path / name)
    rows, shown = inspected(model)
    recommended = re.search(r"^recommended: --target ([\w-]+)", shown, re.MULTILINE)
    assert recommended is not None and recommended[1] == ends_on, shown[-600:]
    assert rows[ends_on]["taken"]
    assert all(len(line) <= 100 for line in shown.splitlines() if line.startswith("linux-")), shown
    assert all(row["memory"] > 0 for row in rows.values() if row["taken"] and row["memory"] is not None)
    refused = [target for target in ASKED if not rows[target]["taken"]]
    assert refused
    for target in refused:
        output = tmp_path / "dist"
        done = edgepack("bundle", str(model), "--target", target, "--output", str(output), "--offline")
        message, hint = failure(done)
        assert done.returncode not in (0, 1) and not output.exists()
        assert rows[target]["reason"] in message
        for other in re.findall(r"--target ([\w-]+)", hint):
            assert rows[other]["taken"], f"{target} sends to {other}, which refuses the model, too"


@pytest.mark.builds(
    "a table in place of a graph: a program of its own, made in seconds; the others with --slow"
)
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", MODELS)
def test_it_ends_where_it_should(name: str, tmp_path: Path) -> None:
    """Made, and its program answers as the report says. The weights are random: neighbours mean nothing, so the gate is off."""
    write, target, dimension = MODELS[name]
    model = write(tmp_path / name)
    done = edgepack(
        "bundle", str(model), "--target", target, "--gate", "off", "--bench", "--json", "-o", str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["verification"]["mean_cosine"] > 0.97
    assert report["verification"]["same_tokens"] >= 4200
    assert report["speed"]["texts_per_second"] > 0
    said = subprocess.run(
        [f"{report['directory']}/embed", "A man is eating food."], capture_output=True, text=True, check=True
    )
    assert len(json.loads(said.stdout)[0]["embedding"]) == dimension


WRONG: list[tuple[int, str, str, tuple[str, ...]]] = [
    (17, "there is no file or folder nofile.tar.zst", "name a folder", ("verify", "nofile.tar.zst")),
    (17, "there is no file or folder nofile", "name a folder", ("report", "nofile")),
    (5, "neither a folder nor an .onnx file", "pypi:some-model==1.0", ("bundle", "some_model-1.0-py3-none-any.whl")),
    (5, "does not exist", "hf:ORG/NAME", ("bundle", "./nofolder")),
    (3, "there is no target sparc64", "linux-x86-min", ("bundle", "-t", "sparc64")),
    (3, "there is no package form 'rpm'", "npm, single", ("bundle", "--as", "rpm", "-t", "linux-x86-fast")),
    (3, "there is no recipe 'int3'", "int8-download", ("bundle", "-r", "int3")),
    (3, "not recipe fp32", "--recipe int8", ("bundle", "-t", "linux-x86-fast", "-r", "fp32")),
    (15, "is a file", "another folder", ("bundle", "-t", "linux-x86-fast", "-o", "text.txt")),
    (3, "expected a number from 0 to 1", "share", ("bundle", "-t", "linux-x86-fast", "--set", "model.min_cosine=1.5")),
    (7, "offline, and not in the cache", "without --offline", ("inspect", "hf:nobody/nothing", "--offline")),
    (5, "does not name a package and its version", "pypi:numpy==VERSION", ("inspect", "pypi:numpy")),
    (2, "no private key", "edgepack keys new", ("bundle", "--sign", "text.txt")),
    (17, "there is no nofile", "name a folder", ("diff", "nofile", "other")),
    (2, "there is no project here", "edgepack.toml", ("build",)),
    (2, "No such option '--jsn'", "--help", ("targets", "--jsn")),
    (3, "there is no target file my.toml", "by its name alone", ("bundle", "-t", "my.toml")),
    (3, "there is no recipe 'INT8' (did you mean int8?)", "int8-download", ("bundle", "-r", "INT8")),
    (2, "got two targets: linux-x86-min and web-wasm", "edgepack build", ("bundle", "-t", "linux-x86-min", "-t", "web-wasm")),
    (3, "there is no target ''", "linux-x86-min", ("bundle", "-t", "")),
    (3, "there is no package form 'deb,wheel'", "an --as for each form", ("bundle", "-t", "linux-x86-min", "--as", "deb,wheel")),
    (17, "text.txt is a file, and not a bundle's folder", "tar -xf", ("report", "text.txt")),
    (2, "is a folder, and no delta", "the delta comes first", ("apply", ".", "text.txt")),
    (2, "invalid plugin name: 'edgepack'", "not edgepack itself", ("plugin", "new", "edgepack")),
    (2, "'--recipe' requires an argument", "edgepack bundle --help", ("bundle", "--recipe")),
]  # fmt: skip
"""Exit code, words of the error, words of its hint, and the command."""


@pytest.mark.sample(2)
@pytest.mark.parametrize(("code", "words", "remedy", "command"), WRONG, ids=lambda each: str(each)[:30])
def test_a_wrong_command_says_what_is_wrong_and_what_to_do(
    code: int, words: str, remedy: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text("x\n")
    (tmp_path / "some_model-1.0-py3-none-any.whl").write_bytes(b"")
    done = edgepack(*command, cwd=tmp_path)
    message, hint = failure(done)
    assert done.returncode == code and words in message and remedy in hint, done.stderr
    left = {file.name for file in tmp_path.iterdir()}
    assert left == {"text.txt", "some_model-1.0-py3-none-any.whl"}, "nothing is left behind"
