"""edgepack from Python."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.support.berts import write_bert
from tests.support.command import edgepack
from tests.support.signed import write_small_bundle

from edgepack import _common_kernels, python_api
from edgepack.cli.bundles import verify
from edgepack.cli.doctor import doctor
from edgepack.errors import ModelError, TargetError, UsageError
from edgepack.records.target import Reading

pytestmark = pytest.mark.tools("python")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_bert(folder)
    return folder


def test_importing_it_is_light() -> None:
    code = "import sys, edgepack; edgepack.bundle; print(sorted({'numpy', 'onnx', 'rich', 'click', 'httpx'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_sums_are_those_of_one_thread() -> None:
    """Of others numpy's BLAS gives other last bits, and recipes that round by them other integers."""
    code = "import edgepack, os, numpy; numpy.ones((9, 9)) @ numpy.ones((9, 9)); print(len(os.listdir('/proc/self/task')))"
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], env=free, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


@pytest.mark.parametrize(
    ("system", "machine", "processor", "kernels"),
    [
        ("linux", "x86_64", "flags\t\t: fpu avx fma avx2 avx512f\n", "Haswell"),
        ("linux", "x86_64", "flags\t\t: fpu avx f16c avx2\n", None),
        ("linux", "x86_64", "flags\t\t: fpu avx fma\nmodel name\t: Xavx2\n", None),
        ("linux", "x86_64", None, None),
        ("linux", "aarch64", None, "ARMV8"),
        ("linux", "riscv64", None, None),
        ("darwin", "x86_64", "flags\t\t: fma avx2\n", None),
        ("win32", "", None, None),
    ],
)
def test_sums_are_those_of_the_kernels_that_usual_processors_have(
    system: str, machine: str, processor: str | None, kernels: str | None, tmp_path: Path
) -> None:
    """Others' add in another order; of an instruction that a processor lacks the process would end."""
    file = tmp_path / "cpuinfo"
    if processor is not None:
        file.write_text(processor)
    assert _common_kernels(system, machine, str(file)) == kernels


@pytest.mark.parametrize("said", ["Zen", ""])
def test_kernels_that_the_user_named_stay(said: str) -> None:
    code = "import edgepack, os; print(os.environ['OPENBLAS_CORETYPE'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "OPENBLAS_CORETYPE": said},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{said}\n"


def test_the_package_itself_has_the_functions_whatever_of_it_was_imported() -> None:
    rooms = "bundles.manifest, edgepack.pipeline, edgepack.reports.text, edgepack.verifier.gate"
    code = f"import edgepack.{rooms}; print([getattr(edgepack, name).__module__ for name in edgepack.__all__], dir(edgepack))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = [
        "Bundle",
        "Quantized",
        "build",
        "bundle",
        "check_device",
        "check_signature",
        "inspect",
        "prove",
        "quantize",
        "report",
        "sign",
        "verify",
        "verify_on",
    ]
    assert done.stdout == f"{['edgepack.python_api'] * len(names)} {sorted([*names, '__version__'])}\n"


def test_a_machine_without_a_target_of_its_own_has_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "ppc64le")
    with pytest.raises(UsageError, match="no target builds for Linux on ppc64le"):
        python_api.bundle("no-such-model", offline=True)


def test_a_model_is_inspected_as_the_command_does(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = python_api.inspect(model, reading=Reading(pooling="cls"), offline=True)
    assert (found.dimension, found.pooling.mode) == (32, "cls")
    assert capsys.readouterr() == ("", "")
    said = json.loads(edgepack("inspect", str(model), "--pooling", "cls", "--offline", "--json").stdout)
    assert said["recipe"] == found.recipe


def test_a_model_is_quantized_into_a_folder_that_is_a_model(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = python_api.quantize(model, recipe="fp16", output=tmp_path / "small", offline=True, progress=True)
    assert made.file.parent == tmp_path / "small" and made.size == made.file.stat().st_size
    assert made.precision == "fp16"
    assert made.verification.mean_cosine > 0.999
    assert "quantize" in capsys.readouterr().err


def test_what_goes_wrong_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        python_api.inspect("no-such-model", offline=True)
    assert caught.value.hint
    with pytest.raises(UsageError, match="no device is named"):
        python_api.verify_on("bundle", [])
    with pytest.raises(TargetError, match="there is no target linux-x68"):
        python_api.bundle(target="linux-x68")
    with pytest.raises(TargetError, match="unknown option modle"):
        python_api.bundle(target="linux-x86-min", settings={"modle": 1})
    with pytest.raises(TargetError, match="int9"):
        python_api.bundle(target="linux-x86-min", recipe="int9", output=tmp_path, offline=True)


@pytest.mark.parametrize(
    "asked",
    [{"gate": "Full"}, {"gate": ""}, {"min_cosine": math.nan}, {"min_cosine": 98}, {"min_cosine": "0.9"}],
)
def test_a_limit_that_is_none_is_not_dropped(asked: dict[str, Any], tmp_path: Path) -> None:
    """The full gate was not asked, and the bundle passed."""
    with pytest.raises(UsageError, match=next(iter(asked))):
        python_api.verify(tmp_path / "bundle", **asked)
    with pytest.raises(UsageError, match=next(iter(asked))):
        python_api.verify_on(tmp_path / "bundle", ["exec:sh"], **asked)


@pytest.mark.parametrize("command", [verify, doctor])
def test_no_number_is_no_limit_of_a_command(command: click.Command) -> None:
    said = CliRunner().invoke(command, ["something", "--min-cosine", "nan"])
    assert said.exit_code == 2 and "is no number" in said.output


def test_no_text_has_no_vector_of_the_dimension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_small_bundle(tmp_path / "sample")
    runner = SimpleNamespace(embed=lambda bundle, texts: [])
    monkeypatch.setattr("edgepack.verifier.trusted_bundles.runner_for", lambda *given: runner)
    dimension = json.loads((folder / "manifest.json").read_text())["model"]["dimension"]
    assert python_api._vectors(folder, []).shape == (0, dimension)


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"pooling": "Mean"}, "pooling"),
        ({"prompts": {"querry": "query: "}}, "prompts"),
        ({"normalize": "no"}, "normalize"),
    ],
)
def test_settings_of_a_model_that_there_are_not_are_refused(
    model: Path, tmp_path: Path, said: dict[str, Any], named: str
) -> None:
    """Of pooling "Mean" the last token's vector was the text's, and that of the model that judges it."""
    reading = Reading(**said)
    with pytest.raises(UsageError, match=named):
        python_api.inspect(model, reading=reading)
    with pytest.raises(UsageError, match=named):
        python_api.bundle(model, target="linux-x86-min", reading=reading, output=tmp_path, offline=True)
