"""A reduced runtime by itself."""

import json
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from onnx import helper
from tests.support.command import edgepack

from edgepack.errors import MissingToolError, ProofError
from edgepack.files.elf import architecture, glibc_floor, version_key
from edgepack.files.store import default_root
from edgepack.foundry.feature_levels import processor_flags
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.foundry.proof.prove import prove_file
from edgepack.models.ort.convert import convert_to_ort
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

PROGRAM = """
#include <onnxruntime_c_api.h>
#include <stdio.h>
int main(void) { printf("%s %d", OrtGetApiBase()->GetVersionString(), OrtGetApiBase()->GetApi(21) != 0); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    """The folder of a runtime for the real model and for a small one."""
    folder = tmp_path_factory.mktemp("runtime") / "onnxruntime"
    arguments = ("-m", "all-MiniLM-L6-v2", "-m", str(tiny_model), "-o", str(folder), "--offline", "--json")
    done = edgepack("runtime", "lib", *arguments)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["library"] == str(folder / "lib" / "libonnxruntime.so.1.21.0")
    assert made["bytes"] < 2_000_000
    here = [proof for proof in made["proofs"] if proof["by"] == "this CPU"]
    assert len(here) == 1 and here[0]["min_cosine"] > 0.999
    if platform.machine() == "x86_64":
        assert {"sse2"} <= {proof["level"] for proof in made["proofs"] if proof["proved"]}
    return folder


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler on this machine")
def test_a_c_program_is_compiled_and_linked_with_it(library: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(PROGRAM)
    command = ["gcc", "main.c", f"-I{library}/include", f"-L{library}/lib", "-lonnxruntime", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    environment = {"LD_LIBRARY_PATH": str(library / "lib")}
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "1.21.0 1"


@pytest.mark.slow
def test_both_models_fit_and_another_does_not(library: Path, bundle: Bundle, tmp_path: Path) -> None:
    built = library / "lib" / "libonnxruntime.so"
    for model in library.glob("*.ort"):
        assert edgepack("runtime", "fits", str(built), str(model)).returncode == 0
    assert len(list(library.glob("*.ort"))) == 2
    model = bundle.directory / "model" / "model.ort"
    shipped = bundle.directory / bundle.manifest["runtime"]["library"]
    assert edgepack("runtime", "fits", str(shipped), str(model)).returncode == 0

    poorer = tmp_path / "poorer"
    shutil.copytree(library, poorer, symlinks=True)
    config = poorer / "required_operators_and_types.config"
    config.write_text(config.read_text().replace("BiasGelu", "FastGelu"))
    done = edgepack("runtime", "fits", str(poorer / "lib" / "libonnxruntime.so"), str(model), "--json")
    assert done.returncode == 11
    assert json.loads(done.stdout)["missing"] == ["com.microsoft BiasGelu 1"]


@pytest.mark.slow
def test_a_library_without_a_list_is_tried(library: Path, tmp_path: Path) -> None:
    alone = tmp_path / "libonnxruntime.so"
    shutil.copyfile(library / "lib" / "libonnxruntime.so.1.21.0", alone)
    for model in library.glob("*.ort"):
        done = edgepack("runtime", "fits", str(alone), str(model), "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert "1.21.0" in found.pop("releases")
        assert found == {
            "fits": True,
            "runtime": "1.21.0",
            "missing": [],
            "complete": True,
            "reason": None,
            "ran": True,
        }
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Sin", ["x"], ["s"]), helper.make_node("Erf", ["s"], ["y"])],
            "other",
            [helper.make_tensor_value_info("x", 1, [1])],
            [helper.make_tensor_value_info("y", 1, [1])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    convert_to_ort(model, tmp_path / "other.ort")
    done = edgepack("runtime", "fits", str(alone), str(tmp_path / "other.ort"), "--json")
    assert done.returncode == 11
    assert json.loads(done.stdout)["missing"] == [
        "ai.onnx Erf 13",
        'ai.onnx Sin 7 {"inputs":{"0":["float"]}}',
    ]


def test_a_library_explains_itself(library: Path) -> None:
    built = library / "lib" / "libonnxruntime.so"
    done = edgepack("runtime", "explain", str(built), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for rows in (found["sections"], found["areas"], found["askers"]):
        assert sum(row["bytes"] for row in rows) == found["bytes"] == built.stat().st_size
    assert {"framework", "session", "MLAS", "kernels", "libc++"} <= {row["name"] for row in found["areas"]}
    assert all(row["why"] for row in found["members"] if row["area"] in ("MLAS", "kernels", "session"))
    quantized = next(row for row in found["members"] if row["name"].endswith("/qgemm.cpp"))
    assert quantized["operators"] and "MatMul" in quantized["why"][0]


@pytest.mark.slow
def test_another_machine_links_the_same_library_without_compiling(
    library: Path, tiny_model: Path, tmp_path: Path
) -> None:
    """The archive travels with its sources; the other machine is a cache of its own in another folder."""
    archive = tmp_path / "kernels.tar.zst"
    done = edgepack("runtime", "export", str(archive), "--with-sources", "--offline", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sources"]
    there = tmp_path / "another" / "machine"
    done = edgepack("runtime", "import", str(archive), env={"EDGEPACK_CACHE": str(there)})
    assert done.returncode == 0, done.stderr
    # The models are made anew there; MiniLM's weights are what cannot be had without a network.
    weights = default_root() / "models"
    (there / "models").symlink_to(weights, target_is_directory=True)
    arguments = ("-m", "all-MiniLM-L6-v2", "-m", str(tiny_model), "-o", str(tmp_path / "lib"), "--offline")
    done = edgepack("runtime", "lib", *arguments, env={"EDGEPACK_CACHE": str(there)})
    assert done.returncode == 0, done.stderr
    assert not list((there / "kernel-archive").glob("*/compile.log")), "nothing was compiled"
    name = "lib/libonnxruntime.so.1.21.0"
    assert (tmp_path / "lib" / name).read_bytes() == (library / name).read_bytes()


@pytest.mark.slow
def test_what_cannot_be_compared_is_said(tmp_path: Path, library: Path) -> None:
    done = edgepack("runtime", "fits", str(tmp_path / "lib.so"), str(next(library.glob("*.ort"))))
    assert done.returncode == 17
    assert "there is no library" in done.stderr
    done = edgepack("runtime", "fits", str(library / "lib" / "libonnxruntime.so"), str(tmp_path / "m.onnx"))
    assert done.returncode == 5
    done = edgepack("runtime", "lib", "-o", str(library), "--offline")
    assert done.returncode == 15


@pytest.mark.skipif("avx2" not in processor_flags(), reason="this processor has no AVX2")
def test_a_library_for_better_processors_says_so_on_others(
    tmp_path: Path, tiny_model: Path, shared_context: HostContext
) -> None:
    target = tmp_path / "avx2.toml"
    built_in = (Path(__file__).parents[2] / "targets" / "linux-x86-min.toml").read_text()
    target.write_text(built_in.replace('arch = "x86_64"', 'arch = "x86_64"\nisa = ["avx2"]'))
    folder = tmp_path / "onnxruntime"
    done = edgepack(
        "runtime", "lib", "-t", str(target), "-m", str(tiny_model), "-o", str(folder), "--offline", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert [proof["level"] for proof in json.loads(done.stdout)["proofs"]] == ["avx2"]
    (model,) = folder.glob("*.ort")
    with pytest.raises(ProofError, match=r"level sse2.*made for processors with avx2, which this one lacks"):
        prove_file(model, folder / "lib" / "libonnxruntime.so", context=shared_context)


@pytest.mark.slow
def test_a_model_is_proved_on_a_library_that_is_out_there(library: Path) -> None:
    model = next(library.glob("*.ort"))
    built = library / "lib" / "libonnxruntime.so.1.21.0"
    done = edgepack("runtime", "prove", str(built), str(model), "--json")
    assert done.returncode == 0, done.stderr
    assert any(proof["by"] == "this CPU" for proof in json.loads(done.stdout))
    done = edgepack("runtime", "prove", str(built), str(library / "none.ort"))
    assert done.returncode == 2 and "there is no file" in done.stderr


@pytest.fixture
def cross_compiles(shared_context: HostContext) -> None:
    """A machine that emulates arm64; `edgepack fetch --target linux-arm64-min` brings the emulator."""
    if platform.machine() != "x86_64":
        pytest.skip("arm64 is not foreign here")
    try:
        find_emulator("aarch64", context=shared_context)
    except MissingToolError as error:
        pytest.skip(error.message)


@pytest.mark.slow  # Ten minutes of compiling on a new machine.
def test_a_bundle_for_arm64_is_verified_under_an_emulator(
    tmp_path: Path, tiny_model: Path, cross_compiles: None
) -> None:
    arguments = ("-t", "linux-arm64-min", "-m", str(tiny_model), "-o", str(tmp_path), "--gate", "off")
    done = edgepack("bundle", *arguments, "--offline", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    folder = Path(made["directory"])
    assert architecture(folder / "embed") == "aarch64"
    report = json.loads(folder.with_name(folder.name + ".report.json").read_text())
    assert report["verification"]["texts"] == 200
    assert any("under an emulator of aarch64" in note for note in report["notes"])
    assert {proof["level"] for proof in report["proofs"]} == {"neon", "dotprod", "i8mm"}


@pytest.mark.slow  # Ten minutes of compiling on a new machine.
def test_arm64_is_cross_compiled_and_proved_under_an_emulator(tmp_path: Path, cross_compiles: None) -> None:
    folder = tmp_path / "onnxruntime"
    done = edgepack("runtime", "lib", "-t", "linux-arm64-min", "-o", str(folder), "--offline", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert architecture(Path(made["library"])) == "aarch64"
    assert [(proof["level"], proof["proved"]) for proof in made["proofs"]] == [
        ("neon", True),
        ("dotprod", True),
        ("i8mm", True),
    ]
    assert all(proof["min_cosine"] > 0.999 for proof in made["proofs"])
    assert version_key(glibc_floor(Path(made["library"])) or "0") <= (2, 28)
