"""embed.dll of a real model, called under wine and not on Windows: bits, threads, what stays of it."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.bundles import made_bundle
from tests.support.windows_library import CALLS, LIBRARY, compile_for_windows
from tests.support.wine import required_wine

from edgepack.errors import ProofError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.runner.native.sources import EXPORTS
from edgepack.verifier.proofs import prove_bundle
from edgepack.verifier.run import BundleRunner
from edgepack_windows.imports import exports_of, require_imports
from edgepack_windows.wine import Wine

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]

LARGEST_LIBRARY, LARGEST_ARCHIVE = 1_200_000, 14_000_000
TEXTS = b"A man is eating food.\nA dog.\n\xff is no character\nGr\xc3\xbc\xc3\x9fe\n"
"""Those of ``calls_library.c``."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, wine: Wine) -> Bundle:
    return made_bundle("windows-x64", tmp_path_factory.mktemp("library"), "--set", "library=true")


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_windows(CALLS, tmp_path_factory.mktemp("calls") / "calls.exe")


@pytest.fixture(scope="module")
def wine() -> Wine:
    return required_wine()


def called(calls: Path, bundle: Bundle, wine: Wine, test: str) -> bytes:
    command: list[str | Path] = ["env", "-i", *wine.command("x86_64"), calls]
    command += [bundle.directory / LIBRARY, test, f"Z:{bundle.directory}"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done
    return done.stdout


def test_what_the_bundle_has_besides(bundle: Bundle) -> None:
    library = (bundle.directory / LIBRARY).read_bytes()
    assert exports_of(library) == tuple(sorted(EXPORTS)) and len(library) <= LARGEST_LIBRARY
    require_imports(library, name="embed.dll")
    assert bundle.archive is not None and bundle.archive.stat().st_size <= LARGEST_ARCHIVE
    assert bundle.manifest["runner"]["library"] == LIBRARY
    files = {entry["path"] for entry in bundle.manifest["files"]}
    assert {LIBRARY, "lib/embed.lib", "include/embed.h"} <= files
    assert not any(name.startswith(("python/", "lib/pkgconfig")) for name in files)


def test_the_program_is_what_it_is_without_the_library(
    bundle: Bundle, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plain = made_bundle("windows-x64", tmp_path_factory.mktemp("plain"))
    assert plain.program.read_bytes() == bundle.program.read_bytes()
    assert not (plain.directory / "lib").exists()


def test_the_proof_is_of_both(bundle: Bundle) -> None:
    report = json.loads(Path(f"{bundle.directory}.report.json").read_text())
    (proof,) = report["proofs"]
    assert proof["proved"] and proof["by"].endswith(", not Windows")


def test_a_library_that_is_broken_is_found(
    bundle: Bundle, shared_context: HostContext, tmp_path: Path
) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(bundle.directory, folder)
    library = folder / LIBRARY
    library.write_bytes(library.read_bytes().replace(b"embed_texts\0", b"embed_textz\0"))
    broken = Bundle(directory=folder, manifest=bundle.manifest)
    run = BundleRunner(context=shared_context).at
    with pytest.raises(ProofError, match=r"lib/embed.dll .*the library lacks a function"):
        prove_bundle(broken, run, levels="here", context=shared_context)


def test_vectors_have_the_bits_of_the_program(bundle: Bundle, calls: Path, wine: Wine) -> None:
    ours = called(calls, bundle, wine, "vectors")
    command = ["env", "-i", *wine.command("x86_64"), bundle.program, "--out", "raw"]
    theirs = subprocess.run(command, input=TEXTS, capture_output=True, check=True)
    assert len(ours) == 4 * 384 * 4 and ours == theirs.stdout


@pytest.mark.parametrize("test", ["errors", "registers", "mode", "threads", "ending", "loads", "unclosed"])
def test_called_by_a_program_of_another_compiler(bundle: Bundle, calls: Path, wine: Wine, test: str) -> None:
    """Each of ``calls_library.c``, which says what is wrong."""
    assert called(calls, bundle, wine, test) == b"right\n"
