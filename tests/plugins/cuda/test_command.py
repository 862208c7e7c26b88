"""`edgepack cuda`: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest
from bin import cuda_lists
from tests.support.command import edgepack
from tests.support.cuda_libraries import UNITS, library

pytestmark = pytest.mark.tools("gcc", "python")
GOLDEN = Path(__file__).with_name("inspect.txt")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(tmp_path_factory.mktemp("whole"))


def test_inspect_in_a_table(whole: Path, update_golden: bool) -> None:
    done = edgepack("cuda", "inspect", str(whole), "--units", "3")
    assert done.returncode == 0, done.stderr
    # The compiler decides how large the library itself is.
    text = "\n".join(line.rstrip() for line in done.stdout.splitlines()[1:]) + "\n"
    if update_golden:
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
    assert "MB of device code in 4 translation units" in " ".join(done.stdout.split())


def test_inspect_as_json(whole: Path) -> None:
    done = edgepack("cuda", "inspect", str(whole), "--json")
    said = json.loads(done.stdout)
    assert said["schema"] == 1
    assert said["bytes"] == whole.stat().st_size
    assert [unit["kernels"] for unit in said["units"]] == [
        ["_BinaryElementWise", "fill"],
        ["flash_fwd_kernel"],
        ["CopyVectorHalf (fpgeneric.cu)"],
        ["moe"],
    ]
    assert said["units"][3]["architectures"] == ["9.0a"]
    assert said["units"][1]["bytes"] == len(UNITS[1].fatbin())
    assert {(part["architecture"], part["kind"]): part["pieces"] for part in said["parts"]} == {
        ("8.0", "constant"): 1,
        ("9.0", "constant"): 1,
        ("8.0", "cubin"): 3,
        ("8.6", "cubin"): 3,
        ("9.0a", "cubin"): 4,
    }


@pytest.mark.slow
def test_prune_writes_a_new_library(whole: Path, tmp_path: Path) -> None:
    output = tmp_path / "small.so"
    done = edgepack("cuda", "prune", str(whole), "--arch", "86", "-o", str(output))
    assert done.returncode == 0, done.stderr
    assert "device code for 86: 3 of 4 translation units" in done.stdout
    again = json.loads(edgepack("cuda", "inspect", str(output), "--json").stdout)
    assert {part["architecture"] for part in again["parts"] if part["kind"] == "cubin"} == {"8.6"}
    assert again["bytes"] == output.stat().st_size < whole.stat().st_size
    done = edgepack("cuda", "prune", str(whole), "--arch", "86", "-o", str(output))
    assert done.returncode == 17
    assert "already exists" in done.stderr


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("1.30.0", "no lists for ONNX Runtime 1.30.0, but for 1.31.1: all units stay"),
        ("1.31.1", "is not the build that the lists for 1.31.1 describe"),
    ],
)
def test_without_lists_prune_goes_by_architecture_and_says_so(
    whole: Path, tmp_path: Path, version: str, why: str
) -> None:
    output = tmp_path / "small.so"
    done = edgepack("cuda", "prune", str(whole), "--arch", "86", "--ort", version, "-o", str(output))
    assert done.returncode == 0, done.stderr
    assert why in done.stderr
    assert ": 3 of 4 translation units" in done.stdout


def test_lists_for_another_version_are_printed(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cuda_lists.main([str(whole), "1.32.0"])
    printed = capsys.readouterr().out
    assert "Drafted from the lists for 1.31.1; gone is what it has no longer: " in printed
    assert "units = 4\n" in printed
    assert 'Add = ["_BinaryElementWise"]\n' in printed


@pytest.mark.slow
def test_nvidias_own_libraries_are_left_alone_unless_asked(tmp_path: Path) -> None:
    path = library(tmp_path, name="libcublasLt.so.13")
    command = ("cuda", "prune", str(path), "--arch", "86", "-o", str(tmp_path / "small.so"))
    done = edgepack(*command)
    assert done.returncode == 3
    assert "NVIDIA's own library" in done.stderr
    assert not (tmp_path / "small.so").exists()
    done = edgepack(*command, "--prune-vendor")
    assert done.returncode == 0, done.stderr
    assert "device code for 80, 86: 3 of 4 translation units" in done.stdout, "it may choose the lower one"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inspect", "/no/such.so"), "/no/such.so cannot be read: No such file"),
        (("inspect", __file__), "test_command.py is not an ELF file"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], message: str) -> None:
    done = edgepack("cuda", *arguments)
    assert done.returncode == 17
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("script", "why"),
    [
        (
            "echo 'NVIDIA-SMI has failed because it could not talk to the driver'\nexit 9",
            "could not talk to the driver",
        ),
        ("echo 'Field \"compute_cap\" is not a valid field to query.'\nexit 2", "not a valid field"),
        ("echo 'No devices were found'", "nvidia-smi finds no GPU here"),
        ("exit 0", "nvidia-smi finds no GPU here"),
    ],
)
def test_native_without_a_gpu(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    nvidia_smi(tmp_path, script, monkeypatch)
    done = edgepack("cuda", "prune", str(whole), "--arch", "native", "-o", str(tmp_path / "small.so"))
    assert done.returncode == 3
    assert why in done.stderr
    assert "name the compute capability of the devices, e.g. 8.6" in done.stderr
    assert not (tmp_path / "small.so").exists()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("gpus", "kept"), [(["8.6", "8.6"], "86"), (["9.0", "8.6"], "86, 90a"), (["12.0", "8.9"], "")]
)
def test_native_is_every_gpu_that_is_here(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: list[str], kept: str
) -> None:
    nvidia_smi(tmp_path, "\n".join(f"echo {gpu}" for gpu in gpus), monkeypatch)
    done = edgepack("cuda", "prune", str(whole), "--arch", "native", "-o", str(tmp_path / "small.so"))
    if kept:
        assert done.returncode == 0, done.stderr
        assert f"device code for {kept}: " in done.stdout
    else:
        assert done.returncode == 3
        assert "no code that runs on compute capability 12.0" in done.stderr


def nvidia_smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An nvidia-smi that says just that."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
