"""A bundle that arrived broken: each missing or damaged file is named, with an exit code of its own."""

import hashlib
import json
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.sample_program import (
    command_of,
    complaint,
    is_for_windows,
    library_of,
    run_program,
    tokenizer_of,
)
from tests.support.signed import key_in

from .test_program import replace

pytestmark = pytest.mark.tools("c++", "python")

FILES: Mapping[str, Callable[[Path], str]] = {
    "model": lambda folder: "model/model.onnx",
    "tokenizer": tokenizer_of,
    "library": library_of,
}


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    name = FILES[name](copy)
    (copy / name).unlink()
    done = run_program(copy, "a cat")
    assert done.returncode == 4
    assert f"{name} is missing" in complaint(done)[0]


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_short_is_named(copy: Path, name: str) -> None:
    name = FILES[name](copy)
    (copy / name).unlink()
    (copy / name).write_bytes(b"short")
    done = run_program(copy, "a cat")
    assert done.returncode == 4
    assert f"{name} is damaged: 5 bytes" in complaint(done)[0]


def test_a_model_that_is_none_is_said_to_be_so(copy: Path) -> None:
    """By ONNX Runtime; of the table in its place by the program."""
    replace(copy, "model/model.onnx", b"not a model")
    done = run_program(copy, "a cat")
    table = is_for_windows(copy)
    assert done.returncode == (4 if table else 5)
    words = "model/model.onnx is damaged: it is not the table" if table else "the model does not load"
    assert words in complaint(done)[0]
    assert table or "--self-test" in complaint(done)[1]


def test_a_library_that_is_none_is_said_to_be_so(copy: Path) -> None:
    name = library_of(copy)
    (copy / name).unlink()
    replace(copy, name, b"not a library")
    done = run_program(copy, "a cat")
    assert done.returncode == 5
    assert name in complaint(done)[0]


def test_a_tokenizer_that_is_none_is_named(copy: Path) -> None:
    replace(copy, tokenizer_of(copy), b'{"version": "1.0"}')
    done = run_program(copy, "a cat")
    assert done.returncode == 4
    assert f"{tokenizer_of(copy)} is damaged" in complaint(done)[0]


def test_a_missing_manifest_is_named(copy: Path) -> None:
    (copy / "manifest.json").unlink()
    done = run_program(copy, "--version")
    assert done.returncode == 4
    assert "manifest.json" in complaint(done)[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[]", "has no schema"),
        (b'{"schema": 99}', "schema 99"),
    ],
)
def test_a_manifest_that_is_none_is_said_to_be_so(copy: Path, content: bytes, words: str) -> None:
    (copy / "manifest.json").write_bytes(content)
    done = run_program(copy, "a cat")
    assert done.returncode == 4
    assert words in complaint(done)[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda manifest: manifest.pop("model"), "model.file"),
        (lambda manifest: manifest["model"].pop("dimension"), "model.dimension"),
        (lambda manifest: manifest.pop("files"), "files"),
        (lambda manifest: manifest["model"].update(file="model/other.ort"), "model/other.ort"),
        (lambda manifest: manifest["model"].update(dimension="many"), "manifest.json"),
        (lambda manifest: manifest.update(files=[7]), "manifest.json"),
    ],
)
def test_what_a_manifest_lacks_is_named(
    copy: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    change(manifest)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    done = run_program(copy, "a cat")
    assert done.returncode == 4
    assert words in complaint(done)[0]


def test_info_of_a_manifest_that_lacks_something(copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    del manifest["model"]["pooling"]
    (copy / "manifest.json").write_text(json.dumps(manifest))
    done = run_program(copy, "--info")
    assert done.returncode == 4
    assert "pooling" in complaint(done)[0]


STEERING = "\x1b]0;gone\x07\x7f\x9b2J"
SHOWN = r"\x1b]0;gone\x07\x7f\x9b2J"


@pytest.mark.parametrize("option", ["--info", "--version"])
def test_names_of_a_manifest_do_not_steer_the_terminal(copy: Path, option: str) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["name"] = STEERING
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert SHOWN in run_program(copy, option).stdout.decode()
    said = run_program(copy, "--info", "--json").stdout.decode()
    assert json.loads(said)["name"] == STEERING
    assert all(letter == "\n" or letter.isprintable() for letter in said)


def test_names_of_files_do_not_steer_the_terminal(copy: Path) -> None:
    done = run_program(copy, "--input", f"/nowhere/{STEERING}")
    assert done.returncode == 3
    assert f"/nowhere/{SHOWN}" in complaint(done)[0]


def test_a_model_of_another_width_is_refused(copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["model"]["dimension"] = 9
    (copy / "manifest.json").write_text(json.dumps(manifest))
    done = run_program(copy, "a cat")
    assert done.returncode == 5
    assert "8 dimensions, the manifest says 9" in complaint(done)[0]


def test_a_model_that_is_cut_short_under_the_program_is_a_message(
    native_sample: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(native_sample, tmp_path / "bundle", symlinks=True))
    with subprocess.Popen(
        [*command_of(folder), "--batch-size", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(b"a cat\n")
        process.stdin.flush()
        assert process.stdout.readline()
        os.truncate(folder / "model/tokenizer.bin", 0)
        process.stdin.write(b"the kitten\n")
        process.stdin.close()
        assert b"error: a file of the bundle was truncated" in process.stderr.read()
    assert process.returncode == 4


def flip(file: Path) -> None:
    """A bit of the first byte."""
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)


def files_of(folder: Path) -> int:
    return len(json.loads((folder / "manifest.json").read_text())["files"])


@pytest.mark.parametrize("to", ["/etc/passwd", "..", "../other", "nowhere", "link", "."])
def test_a_listed_link_that_leads_out_of_the_bundle_is_damage(copy: Path, to: str) -> None:
    """Its name alone is in the manifest: what it leads to nobody would have looked at."""
    (copy.parent / "other").mkdir(exist_ok=True)
    manifest = json.loads((copy / "manifest.json").read_text())
    for said, code in (("golden.json", 0), (to, 4)):
        (copy / "link").unlink(missing_ok=True)
        (copy / "link").symlink_to(said)
        digest = hashlib.sha256(said.encode()).hexdigest()
        entry = {"path": "link", "size": len(said), "sha256": digest, "mode": "link", "part": "model"}
        (copy / "manifest.json").write_text(json.dumps({**manifest, "files": [*manifest["files"], entry]}))
        done = run_program(copy, "--check")
        assert done.returncode == code, (done.stdout, done.stderr)
    assert complaint(done)[0] == "error: link is damaged: it is not the link that was packed"


@pytest.mark.parametrize("name", ["../secret", "/SECRET", "model/../../secret", "./../secret", r"..\secret"])
def test_a_listed_file_out_of_the_bundle_is_damage(copy: Path, name: str) -> None:
    """It would be called intact, and is none of the bundle's."""
    secret = copy.parent / "secret"
    secret.write_bytes(b"secret")
    name = name.replace("/SECRET", str(secret))
    digest = hashlib.sha256(b"secret").hexdigest()
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["files"].append({"path": name, "size": 6, "sha256": digest, "mode": "0644", "part": "model"})
    (copy / "manifest.json").write_text(json.dumps(manifest))
    done = run_program(copy, "--check")
    assert done.returncode == 4
    assert complaint(done)[0].endswith("secret is no file of the bundle")


def _a_link_to_a_device(place: Path) -> None:
    place.symlink_to("/dev/zero")


def _holes(place: Path) -> None:
    place.touch()
    os.truncate(place, 1 << 40)


@pytest.mark.parametrize("lay", [_a_link_to_a_device, os.mkfifo, _holes])
@pytest.mark.parametrize("what", ["manifest", "tokenizer", "library"])
def test_what_is_no_file_or_has_no_end_is_refused_at_once(
    native_sample: Path, tmp_path: Path, what: str, lay: Callable[[Path], None]
) -> None:
    """It took all memory, or was waited for; the manifest of a bundle that has to be signed, too."""
    copy = Path(shutil.copytree(native_sample, tmp_path / "bundle", symlinks=True))
    name = "manifest.json" if what == "manifest" else FILES[what](copy)
    manifest = json.loads((copy / "manifest.json").read_text())
    for file in manifest["files"]:
        if file["path"] == name:
            file["size"] = 0
    (copy / "manifest.json").write_text(json.dumps(manifest))
    (copy / name).unlink()
    lay(copy / name)
    done = subprocess.run(
        [*command_of(copy), "--check"],
        capture_output=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)),
    )
    assert done.returncode == 4, done.stderr
    assert name in complaint(done)[0]


@pytest.mark.sample(1)
def test_a_check_names_what_is_damaged(copy: Path) -> None:
    done = run_program(copy, "--check")
    assert (done.returncode, done.stdout) == (0, b"check passed: %d files intact\n" % files_of(copy)), (
        done.stderr
    )
    assert json.loads(run_program(copy, "--check", "--json").stdout) == {"files": files_of(copy)}
    flip(copy / "golden.json")
    done = run_program(copy, "--check")
    assert done.returncode == 4
    assert "golden.json is damaged" in complaint(done)[0]


def test_a_bundle_that_is_checked_at_each_start(copy: Path) -> None:
    """What its target asked for with ``check = "start"``: a flipped bit is an error, not another vector."""
    flip(copy / tokenizer_of(copy))
    flip(copy / "golden.json")
    assert b"does not match its SHA-256" not in run_program(copy, "--version").stderr
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["runner"]["check"] = "start"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    for arguments in (["a cat"], ["--version"]):
        done = run_program(copy, *arguments)
        assert done.returncode == 4
        assert complaint(done)[0].startswith(f"error: {tokenizer_of(copy)} is damaged")


def test_a_file_that_is_listed_again_and_again_is_read_once(copy: Path) -> None:
    """100,000 times took three minutes, of a model of 148 kB."""
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["runner"]["check"] = "start"
    model = next(file for file in manifest["files"] if file["path"] == manifest["model"]["file"])
    manifest["files"].append({**model, "sha256": "0" * 64})
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert run_program(copy, "a cat").returncode == 0


def test_a_signature_is_asked_for(copy: Path, tmp_path: Path) -> None:
    key_in(tmp_path)
    public = str(tmp_path / "key.pub")
    by_option = run_program(copy, "--require-signature", public, "a cat")
    by_variable = run_program(copy, "a cat", environment={"EMBED_REQUIRE_SIGNATURE": public})
    # A variable of a shell that was never set is no reason to go on.
    assert run_program(copy, "--require-signature", "", "a cat").returncode == 2
    assert run_program(copy, "a cat", environment={"EMBED_REQUIRE_SIGNATURE": ""}).returncode == 2
    for done in (by_option, by_variable):
        assert done.returncode == 4
        assert "there is no signature.sigstore.json" in complaint(done)[0]
