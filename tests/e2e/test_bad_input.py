"""Bad input: two clear lines, an exit code of its own, and nothing half-made left behind."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from tests.support.command import edgepack
from tests.support.serving import file, serving

from edgepack.records.model import ModelSource

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

TARGET = ("bundle", "-t", "linux-x86-min", "--offline")
REVISION = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
UNGATED = ("--gate", "off")


def fails(
    code: int, words: str, *arguments: str, env: dict[str, str] | None = None, output: Path | None = None
) -> None:
    """The command fails with this exit code and these words, in two lines, and leaves the output folder empty."""
    done = edgepack(*arguments, env=env)
    assert done.returncode == code, done.stderr
    lines = done.stderr.strip().splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    assert words in errors[0]
    assert "Traceback" not in done.stderr
    assert lines[-1].startswith("hint: "), done.stderr
    assert done.stdout == ""
    if output is not None:
        assert not output.exists() or list(output.iterdir()) == []


def copy_of(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model"))


def test_no_such_target() -> None:
    fails(3, "no target linux-x86-mini (did you mean linux-x86-min?)", "bundle", "-t", "linux-x86-mini")


def test_an_unknown_option() -> None:
    fails(2, "--recipee", *TARGET, "--recipee", "int8")


def test_an_unknown_builder_option() -> None:
    fails(3, "unknown option runtim (did you mean runtime?)", *TARGET, "--set", "runtim=full")


@pytest.mark.slow
def test_an_unknown_recipe(tiny_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fails(3, "int8", *TARGET, "-m", str(tiny_model), "-o", str(out), "--recipe", "imt8", output=out)


def test_a_model_folder_that_is_not_there(tmp_path: Path) -> None:
    fails(5, "nowhere", *TARGET, "-m", str(tmp_path / "nowhere"))


def test_a_model_without_a_tokenizer(tiny_model: Path, tmp_path: Path) -> None:
    model = copy_of(tiny_model, tmp_path)
    (model / "tokenizer.json").unlink()
    fails(
        5, "tokenizer.json", *TARGET, "-m", str(model), "-o", str(tmp_path / "out"), output=tmp_path / "out"
    )


def test_a_truncated_safetensors(tiny_model: Path, tmp_path: Path) -> None:
    model = copy_of(tiny_model, tmp_path)
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    fails(
        5,
        "model.safetensors",
        *TARGET,
        "-m",
        str(model),
        "-o",
        str(tmp_path / "out"),
        output=tmp_path / "out",
    )


def test_an_onnx_file_that_is_not_one(tiny_model: Path, tmp_path: Path) -> None:
    model = copy_of(tiny_model, tmp_path)
    (model / "model.onnx").write_text("this is no model")
    fails(5, "model.onnx", *TARGET, "-m", str(model / "model.onnx"), "-o", str(tmp_path / "out"))


@pytest.mark.slow
def test_an_unsupported_architecture(tiny_model: Path, tmp_path: Path) -> None:
    model = copy_of(tiny_model, tmp_path)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(
        json.dumps({**config, "model_type": "t5", "architectures": ["T5Model"]})
    )
    fails(6, "t5", *TARGET, "-m", str(model), "-o", str(tmp_path / "out"), output=tmp_path / "out")


@pytest.mark.slow
def test_an_operator_that_no_kernel_implements(tiny_model: Path, tmp_path: Path) -> None:
    model = copy_of(tiny_model, tmp_path)
    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask")
    ]
    out = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", 32])
    node = helper.make_node("Telepathy", ["input_ids"], ["last_hidden_state"], domain="com.example")
    graph = helper.make_graph([node], "g", ids, [out])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), model / "model.onnx")
    fails(6, "Telepathy", *TARGET, "-m", str(model / "model.onnx"), "-o", str(tmp_path / "out"))


def test_an_output_that_cannot_be_written(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    fails(15, "cannot write", *TARGET, "-m", str(tiny_model), "-o", str(tmp_path / "file" / "out"), *UNGATED)


@pytest.mark.slow
def test_an_output_that_exists_is_kept_without_force(tiny_model: Path, tmp_path: Path) -> None:
    there = tmp_path / "tiny-bert-linux-x86-min"
    there.mkdir()
    (there / "precious").write_text("mine")
    arguments = (*TARGET, "-m", str(tiny_model), "-o", str(tmp_path), *UNGATED)
    fails(15, "already exists", *arguments)
    fails(15, "is not a bundle, so it is not replaced", *arguments, "--force")
    assert (there / "precious").read_text() == "mine"
    (there / "precious").unlink()
    for _ in range(2):
        done = edgepack(*arguments, "--force")
        assert done.returncode == 0, done.stderr
        assert (there / "manifest.json").is_file()
    fails(15, "already exists", *arguments)


@pytest.mark.slow
def test_a_gate_that_is_not_met(tiny_model: Path, tmp_path: Path) -> None:
    fails(
        *(13, "cosine", *TARGET, "-m", str(tiny_model), "-o", str(tmp_path), "--set", "model.min_cosine=1.0"),
        output=tmp_path,
    )


@pytest.mark.slow
def test_a_budget_that_is_not_met(tiny_model: Path, tmp_path: Path) -> None:
    fails(
        *(14, "allows 0.1 MB", *TARGET, "-m", str(tiny_model), "-o", str(tmp_path), *UNGATED),
        *("--set", 'budget.download="100 kB"'),
        output=tmp_path,
    )


@pytest.mark.slow
def test_no_network(tmp_path: Path) -> None:
    closed = "http://127.0.0.1:9"
    env = {"EDGEPACK_CACHE": str(tmp_path / "cache"), "HF_ENDPOINT": closed, "PIP_INDEX_URL": closed}
    env |= {
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "",
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": os.devnull,
    }
    fails(7, "MiniLM", "bundle", "-t", "linux-x86-min", "-o", str(tmp_path / "out"), env=env)


@pytest.mark.slow
def test_offline_with_an_empty_cache(tmp_path: Path) -> None:
    fails(7, "offline", *TARGET, "-o", str(tmp_path / "out"), env={"EDGEPACK_CACHE": str(tmp_path / "cache")})


@pytest.mark.slow
def test_a_missing_compiler(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "shadow" / "ziglang").mkdir(parents=True)
    (tmp_path / "shadow" / "ziglang" / "__init__.py").touch()
    fails(
        *(9, "zig, the compiler for the runtime, is not installed", *TARGET, "-m", str(tiny_model)),
        *("-o", str(tmp_path / "out")),
        env={"PYTHONPATH": str(tmp_path / "shadow")},
        output=tmp_path / "out",
    )


@pytest.mark.slow
def test_a_wrong_hash(minilm: ModelSource, tmp_path: Path) -> None:
    """A hub that has right content, but for the configuration; and no other place to get it from."""
    contents = {file.path: (minilm.directory / file.path).read_bytes() for file in minilm.files}
    contents["config.json"] = contents["config.json"].replace(b"384", b"385")
    closed = "http://127.0.0.1:9"
    with serving() as hub:
        for name, content in contents.items():
            hub.on(f"/sentence-transformers/all-MiniLM-L6-v2/resolve/{REVISION}/{name}", file(content))
        env = {"EDGEPACK_CACHE": str(tmp_path / "cache"), "HF_ENDPOINT": hub.base, "PIP_INDEX_URL": closed}
        env |= {
            "PIP_EXTRA_INDEX_URL": "",
            "PIP_FIND_LINKS": "",
            "PIP_RETRIES": "0",
            "PIP_CONFIG_FILE": os.devnull,
        }
        wrong = hashlib.sha256(contents["config.json"]).hexdigest()
        right = next(file.sha256 for file in minilm.files if file.path == "config.json")
        for digest in (wrong, right):
            fails(8, digest, "bundle", "-t", "linux-x86-min", "-o", str(tmp_path / "out"), env=env)


def test_a_full_disk(tiny_model: Path, tmp_path: Path) -> None:
    """The output lies on a disk of one megabyte, mounted in a namespace of its own."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    script = (
        f'mount -t tmpfs -o size=1m tmpfs {mounted} && {{ "$@"; code=$?; ls -A {mounted}/out; exit $code; }}'
    )
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode not in (0, 2):
        pytest.skip("this system lets nobody mount in a namespace of their own")
    command += [
        sys.executable,
        "-m",
        "edgepack",
        *TARGET,
        "-m",
        str(tiny_model),
        "-o",
        f"{mounted}/out",
        *UNGATED,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 16, done.stderr
    assert f"error: the disk that holds {mounted}/out has" in done.stderr
    assert "or name a folder on another disk (--output)" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == "", "the output folder is empty"


def test_ctrl_c_in_the_middle(tiny_model: Path, tmp_path: Path) -> None:
    out, work = tmp_path / "out", tmp_path / "work"
    work.mkdir()
    command = [sys.executable, "-m", "edgepack", *TARGET, "-m", str(tiny_model), "-o", str(out), *UNGATED]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(work)},
        # What runs the tests in the background may have had them ignore an interrupt.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("bundle "):
            break
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 130, rest
    assert "Traceback" not in rest
    assert list(out.iterdir()) == []
    assert list(work.iterdir()) == []


@pytest.mark.slow
def test_two_builds_at_once(tiny_model: Path, tmp_path: Path) -> None:
    commands = [
        [
            sys.executable,
            "-m",
            "edgepack",
            *TARGET,
            "-m",
            str(tiny_model),
            "-o",
            str(tmp_path / name),
            *UNGATED,
        ]
        for name in ("one", "two")
    ]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    for process in processes:
        _, story = process.communicate(timeout=3000)
        assert process.returncode == 0, story
    archives = [tmp_path / name / "tiny-bert-linux-x86-min.tar.zst" for name in ("one", "two")]
    assert archives[0].read_bytes() == archives[1].read_bytes()


def test_a_bundle_that_is_none(tmp_path: Path) -> None:
    fails(17, "manifest.json", "report", str(tmp_path))
    fails(17, "manifest.json", "verify", str(tmp_path))


@pytest.mark.slow
def test_a_killed_build_leaves_nothing_that_is_taken_for_a_bundle(tiny_model: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "edgepack",
        *TARGET,
        "-m",
        str(tiny_model),
        "-o",
        str(tmp_path),
        *UNGATED,
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("bundle "):
            break
    process.kill()
    process.stderr.close()
    process.wait()
    time.sleep(0.1)
    assert not (tmp_path / "tiny-bert-linux-x86-min").exists()
    done = edgepack(*TARGET, "-m", str(tiny_model), "-o", str(tmp_path), *UNGATED)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name.removeprefix("tiny-bert-linux-x86-min") for path in tmp_path.iterdir()) == [
        "",
        ".provenance.json",
        ".report.json",
        ".tar.zst",
    ]
