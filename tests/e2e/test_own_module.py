"""linux-x86 with a module of one's own: frozen in, proved, judged with the full-precision model, and verified again."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.support.command import edgepack
from tests.support.once import made_once

from edgepack.bundles.manifest import open_bundle
from edgepack.errors import VerificationError
from edgepack.files.store import sha256_of
from edgepack.finished_bundle import VerifyOptions, verify_again
from edgepack.plugins.context import HostContext

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

HOOKS = """\
import html
import re

TAGS = re.compile(r"<[^>]*>")


def prepare(texts):
    return [html.unescape(TAGS.sub(" ", text)).upper() for text in texts]


def finish(vectors, texts):
    return [vector[::-1] for vector in vectors]
"""
"""Each word is another to the model, and each number lies elsewhere: without it on both sides, nothing is near."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    """The output folder."""

    def make(folder: Path) -> None:
        (folder / "hooks.py").write_text(HOOKS)
        done = edgepack(
            *("bundle", "-t", "linux-x86", "-m", str(tiny_model), "-r", "fp32", "--offline"),
            *("--set", f"runner.module={folder / 'hooks.py'}", "-o", str(folder / "dist")),
        )
        assert done.returncode == 0, done.stderr

    return made_once(tmp_path_factory, "own-module", make) / "dist"


@pytest.fixture(scope="module")
def bundle(made: Path) -> Path:
    return next(folder for folder in made.iterdir() if folder.is_dir())


def vectors(bundle: Path, *words: str) -> np.ndarray:
    done = subprocess.run([bundle / "embed", *words], capture_output=True, check=True, env={})
    return np.array([record["embedding"] for record in json.loads(done.stdout)])


@pytest.mark.slow
def test_it_is_in_the_bundle_and_in_its_manifest(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["runner"]["module"] == "module/hooks.py"
    (entry,) = (file for file in manifest["files"] if file["path"] == "module/hooks.py")
    assert entry["sha256"] == sha256_of(bundle / "module/hooks.py")
    assert (bundle / "module/hooks.py").read_text() == HOOKS


@pytest.mark.slow
def test_the_program_runs_it_with_what_it_imports(bundle: Path) -> None:
    assert np.array_equal(
        vectors(bundle, "a &amp; <b>cat</b>"), vectors(bundle, "a & CAT".replace("CAT", " cat "))
    )
    done = subprocess.run([bundle / "embed", "--self-test"], capture_output=True, check=False, env={})
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_its_archive_is_verified_again(made: Path, tiny_model: Path) -> None:
    (archive,) = made.glob("*.tar.zst")
    done = edgepack("verify", str(archive), "-m", str(tiny_model), "--offline", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "passed"


@pytest.mark.slow
def test_a_gate_without_it_notices(
    bundle: Path, tiny_model: Path, shared_context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what passes above passes because the full-precision model has the module, too: with a stranger's it does where it is named."""
    monkeypatch.setattr("edgepack.verifier.trusted_bundles.is_made_here", lambda digest, *, store: False)
    assert open_bundle(bundle)
    with pytest.raises(VerificationError, match="differ too much"):
        verify_again(bundle, VerifyOptions(model=str(tiny_model), run=True), context=shared_context)
    named = bundle / "module/hooks.py"
    found = verify_again(
        bundle, VerifyOptions(model=str(tiny_model), module=named, run=True), context=shared_context
    )
    assert found.status == "passed"


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (None, ("-t", "linux-x86"), "there is no file"),
        (
            "import numpy",
            ("-t", "linux-x86"),
            "cannot be loaded: ModuleNotFoundError: No module named 'numpy'",
        ),
        (HOOKS, ("-t", "linux-x86", "--set", "runner=native"), "runner.module goes with the frozen runner"),
        (HOOKS, ("-t", "linux-x86-min"), "runner.module goes with the frozen runner"),
    ],
)
def test_what_cannot_be_is_said_in_two_lines(
    tmp_path: Path, tiny_model: Path, text: str | None, options: tuple[str, ...], words: str
) -> None:
    if text is not None:
        (tmp_path / "hooks.py").write_text(text)
    done = edgepack(
        *("bundle", "-m", str(tiny_model), "--offline", "-o", str(tmp_path / "dist")),
        *("--set", f"runner.module={tmp_path / 'hooks.py'}"),
        *options,
    )
    assert done.returncode == 3
    assert any(words in line for line in done.stderr.splitlines()[-2:])
