"""The frozen program: whole, self-contained, the same twice, and at work wherever it lies."""

import json
import os
import platform as host
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.sample_program import complaint, library_of, vectors_of
from tests.support.signed import same_key_in

from edgepack import python_api as library
from edgepack.bundles.manifest import file_entry
from edgepack.console import Story
from edgepack.errors import FloorError, MissingToolError, OutputError, ProofError, ToolError
from edgepack.files.elf import elf_files, foreign_libraries, foreign_run_paths, glibc_floor
from edgepack.files.store import Store, default_root, digest_tree
from edgepack.plugins.context import HostContext, host_context
from edgepack.records.bundle import RunnerArtifact
from edgepack.records.model import ModelSource, Pooling, PreparedModel
from edgepack.records.target import Platform
from edgepack.runner.freeze import runner as subject
from edgepack.runner.freeze.excludes import LEAN, Excludes, for_module
from edgepack.runner.freeze.runner import freeze_leanest, freeze_runner
from edgepack.runner.freeze.sample_bundle import (
    DIMENSION,
    MAX_LENGTH,
    sample_model,
    sample_tokenizer,
    write_golden,
    write_manifest,
    write_sample,
)
from edgepack.runner.freeze.smoke_test import smoke_test

pytestmark = pytest.mark.tools(
    "gcc",
    "c++",
    "python",
    "env",
    may=("ldd", "file", "strip", "patchelf", "dpkg-query", "vectorize", "embed", "zig"),
)


PLATFORM = Platform(os="linux", arch=host.machine())


@pytest.fixture(scope="module")
def store() -> Store:
    """The user's: an entry is named by all that decides what it holds, and a hundred sources take minutes to compile."""
    return Store(root=default_root())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedModel:
    """The sample's model, whose tokenizer has a part that does not compile."""
    folder = tmp_path_factory.mktemp("model")
    document = {**json.loads(sample_tokenizer()), "decoder": None}
    document["normalizer"] = {"type": "Replace", "pattern": {"String": "never seen"}, "content": "x"}
    return prepared_of(folder, json.dumps(document))


def prepared_of(folder: Path, document: str) -> PreparedModel:
    (folder / "tokenizer.json").write_text(document)
    (folder / "model.onnx").write_bytes(sample_model())
    source = ModelSource(
        name="sample",
        origin="test",
        directory=folder,
        weights=None,
        onnx=folder / "model.onnx",
        tokenizer=folder / "tokenizer.json",
        config={},
        pooling=Pooling(),
        max_length=MAX_LENGTH,
        dimension=DIMENSION,
    )
    return PreparedModel(
        source=source,
        file=folder / "model.onnx",
        recipe="none",
        precision="fp32",
        format="onnx",
        needs=None,
        inputs=("input_ids", "attention_mask"),
    )


@pytest.fixture(scope="module")
def frozen(store: Store, prepared: PreparedModel, tmp_path_factory: pytest.TempPathFactory) -> RunnerArtifact:
    """With the package tokenizers."""
    with host_context(story=Story(quiet=True), offline=True, store=store) as context:
        made = freeze_runner(model=prepared, platform=PLATFORM, context=context)
        kept = Path(
            shutil.copytree(made.directory, tmp_path_factory.mktemp("frozen") / "program", symlinks=True)
        )
        texts = []
        for text in made.licenses:
            texts.append(Path(shutil.copy(text, tmp_path_factory.mktemp("licenses") / text.name)))
        return replace(made, directory=kept, licenses=tuple(texts))


@pytest.fixture(scope="module")
def bundle(
    frozen: RunnerArtifact, native_sample: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The sample bundle with the frozen program in it, in a folder with an awkward name."""
    folder = tmp_path_factory.mktemp("bündle with spaces") / "b"
    shutil.copytree(frozen.directory, folder, symlinks=True)
    write_sample(folder)
    golden = json.loads((native_sample / "golden.json").read_text())
    write_golden(folder, dict(zip(golden["texts"], golden["vectors"], strict=True)))
    write_manifest(folder, library=library_of(folder))
    yield folder
    shutil.rmtree(folder)


def run(program: Path | str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run with nothing in the environment at all."""
    return subprocess.run([program, *arguments], env={}, cwd=cwd, capture_output=True, check=False)


def test_it_gives_what_the_native_program_gives(bundle: Path) -> None:
    golden = json.loads((bundle / "golden.json").read_text())
    assert vectors_of(run(bundle / "embed", *golden["texts"]).stdout) == golden["vectors"]
    assert run(bundle / "embed", "--self-test").returncode == 0


def test_from_another_folder_through_a_link_of_another_name(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "vectorize").symlink_to(bundle / "embed")
    expected = run(bundle / "embed", "a cat").stdout
    assert run(tmp_path / "vectorize", "a cat", cwd=tmp_path).stdout == expected
    assert b"usage: embed" in run(tmp_path / "vectorize", "--help").stdout
    assert run("./vectorize", "a cat", cwd=tmp_path).stdout == expected
    assert run("../embed", "a cat", cwd=bundle / "model").stdout == expected


def test_texts_beyond_ascii_need_no_locale(bundle: Path) -> None:
    done = run(bundle / "embed", "Katze ü 日本")
    assert json.loads(done.stdout)[0]["text"] == "Katze ü 日本"


def test_all_symbols_can_be_bound_at_the_start(bundle: Path) -> None:
    done = subprocess.run(
        [bundle / "embed", "--version"], env={"LD_BIND_NOW": "1"}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_it_asks_the_device_for_a_c_library_only(frozen: RunnerArtifact) -> None:
    assert foreign_libraries(frozen.directory) == {}
    assert not [path for path in elf_files(frozen.directory) if foreign_run_paths(path, frozen.directory)]
    floor = frozen.versions["glibc_floor"]
    assert floor.startswith("2.")


FREEZE = """
import sys
from pathlib import Path
from edgepack.console import Story
from edgepack.files.store import Store, digest_tree
from edgepack.plugins.context import host_context
from edgepack.runner.freeze.excludes import LEAN
from edgepack.runner.freeze.pyinstaller import freeze
from edgepack.runner.freeze.python_library import python_library
from edgepack.runner.freeze.runner import sources_of
place = Path(sys.argv[1])
with host_context(story=Story(quiet=True), offline=True, store=Store(root=place / "store")) as context:
    library = python_library(place / "python", context=context)
    sources = sources_of(compiled=True)
    freeze(place / "program", sources=sources, excludes=LEAN, python_library=library, context=context)
print(digest_tree(place / "program"))
"""


@pytest.mark.slow
def test_its_bytes_do_not_depend_on_compiled_files_of_python(tmp_path: Path) -> None:
    """Which texts of a module are shared within it was told by how the module had come into memory."""
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found = []
    for name, more in (("usual", {}), ("none yet", {"PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")})):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-c", FREEZE, str(tmp_path / name)]
        found.append(
            subprocess.run(command, env={**usual, **more}, stdout=subprocess.PIPE, check=True).stdout
        )
    assert found[0] == found[1]


def test_nothing_unneeded_is_inside(frozen: RunnerArtifact) -> None:
    names = " ".join(file.path for file in digest_tree(frozen.directory))
    for unneeded in ("numpy", "onnxruntime", "huggingface", "ssl", "crypto", "sqlite", "lzma", "tk"):
        assert unneeded not in names.replace("tokenizers", "")
    assert frozen.versions["trim"] == "lean"


def test_licences_of_what_is_inside_come_along(frozen: RunnerArtifact) -> None:
    texts = {path.stem.split("-")[0]: path.read_text() for path in frozen.licenses}
    assert "PYTHON SOFTWARE FOUNDATION LICENSE" in texts["python"]
    assert "Apache License" in texts["tokenizers"]
    assert "Bootloader Exception" in texts["pyinstaller"]
    libraries = {
        path.name.split(".so")[0]
        for path in (frozen.directory / "_internal").glob("lib*.so*")
        if not path.name.startswith(("libpython", "libembed"))
    }
    assert libraries <= set(texts)


@pytest.mark.slow
def test_two_freezes_give_the_same_bytes(
    frozen: RunnerArtifact, prepared: PreparedModel, tmp_path: Path
) -> None:
    with host_context(story=Story(quiet=True), offline=True, store=Store(root=tmp_path)) as context:
        again = freeze_runner(model=prepared, platform=PLATFORM, context=context)
        assert digest_tree(again.directory) == digest_tree(frozen.directory)


def test_a_second_call_freezes_nothing(
    frozen: RunnerArtifact, prepared: PreparedModel, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("frozen again")

    monkeypatch.setattr(subject, "freeze_into", fail)
    with host_context(story=Story(quiet=True), offline=True, store=store) as context:
        again = freeze_runner(model=prepared, platform=PLATFORM, context=context)
        assert again.versions == frozen.versions
        assert digest_tree(again.directory) == digest_tree(frozen.directory)


def test_a_module_that_is_saved_while_it_is_frozen_makes_no_entry(
    prepared: PreparedModel, context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache had the program with the one module under the key of the other, and it was verified with that."""
    (library_file := tmp_path / "libembed.so").touch()
    (module := tmp_path / "hooks.py").write_text("one")
    monkeypatch.setattr(subject, "link_library", lambda *given, **named: library_file)
    monkeypatch.setattr(subject, "freeze_into", lambda folder, **named: module.write_text("other"))
    with pytest.raises(OutputError, match=r"hooks\.py was changed while it was read"):
        freeze_runner(model=prepared, platform=PLATFORM, module=module, context=context)
    assert not list((context.store.root / "runner").glob("*"))


def test_what_a_users_module_imports_stays(context: HostContext, tmp_path: Path) -> None:
    module = tmp_path / "hooks.py"
    module.write_text("def prepare(texts):\n    import unicodedata, urllib.parse\n    return texts\n")
    left = set(for_module(LEAN, module, context=context).modules)
    assert {"unicodedata", "urllib", "ipaddress"} <= set(LEAN.modules) - left
    assert {"sqlite3", "tkinter"} <= left
    module.write_text("import nothing_of_the_kind\n")
    with pytest.raises(ToolError, match="nothing_of_the_kind"):
        for_module(LEAN, module, context=context)


def test_when_the_leanest_does_not_work_the_next_is_taken(
    context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def record(destination: Path, *, excludes: Excludes, **_: object) -> None:
        tried.append(excludes.name)

    def try_it(*_: object, **__: object) -> None:
        if tried[-1] == LEAN.name:
            raise ProofError("no module named this or that")

    monkeypatch.setattr(subject, "freeze", record)
    monkeypatch.setattr(subject, "smoke_test", try_it)
    (tmp_path / "_internal").mkdir()
    library = tmp_path / "libembed.so"
    library.touch()
    made = freeze_leanest(tmp_path, python=tmp_path, library=library, compiled=True, context=context)
    assert (made, tried) == ("whole", ["lean", "whole"])


def test_when_none_works_the_last_failure_is_told(
    context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, excludes: Excludes, **__: object) -> None:
        raise ToolError(f"{excludes.name} failed")

    monkeypatch.setattr(subject, "freeze", fail)
    with pytest.raises(ToolError, match="whole failed"):
        freeze_leanest(tmp_path, python=tmp_path, library=tmp_path, compiled=True, context=context)


@pytest.mark.parametrize(
    "script", ["exit 0", "exit 1", "exec yes", "echo '[]'", """echo '[{"text": "a", "embedding": [1, 2]}]'"""]
)
def test_a_program_that_does_not_work_is_noticed(context: HostContext, tmp_path: Path, script: str) -> None:
    program = tmp_path / "program"
    program.mkdir()
    (program / "embed").write_text(f"#!/bin/sh\n{script}\n")
    (program / "embed").chmod(0o755)
    with pytest.raises(ProofError, match="frozen program does not work"):
        smoke_test(program, work=tmp_path, compiled=False, context=context)


def test_a_program_that_accepts_nonsense_is_noticed(
    frozen: RunnerArtifact, context: HostContext, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    shutil.copytree(frozen.directory, program, symlinks=True)
    (program / "embed").rename(program / "real")
    (program / "embed").write_text(
        '#!/bin/sh\ncase "$1" in --nonsense) exit 0;; esac\nexec "$(dirname "$0")/real" "$@"\n'
    )
    (program / "embed").chmod(0o755)
    with pytest.raises(ProofError, match="takes --nonsense"):
        smoke_test(program, work=tmp_path, compiled=False, context=context)


def test_a_machine_without_binutils_is_told_what_to_install(
    context: HostContext, prepared: PreparedModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = tmp_path / "libembed.so"
    library.touch()
    monkeypatch.setattr(subject, "link_library", lambda *_, **__: library)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(MissingToolError) as caught:
        freeze_runner(model=prepared, platform=PLATFORM, context=context)
    assert caught.value.hint
    assert not list((context.store.root / "runner").iterdir())


def test_devices_with_an_older_c_library_are_refused(
    store: Store, prepared: PreparedModel, frozen: RunnerArtifact
) -> None:
    device = Platform(os="linux", arch="x86_64", glibc="2.28")
    with (
        host_context(story=Story(quiet=True), offline=True, store=store) as context,
        pytest.raises(FloorError) as caught,
    ):
        freeze_runner(model=prepared, context=context, platform=device)
    assert f"needs glibc {frozen.versions['glibc_floor']}" in caught.value.message
    assert "the target's devices have 2.28" in caught.value.message
    assert "container" in (caught.value.hint or "")


def test_on_too_old_a_system_it_says_a_sentence(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    shutil.copytree(bundle, folder)
    library = next((folder / "_internal").glob("libpython3*"))
    content = library.read_bytes()
    floor = glibc_floor(library)
    newest = f"GLIBC_{floor}".encode()
    assert content.count(newest + b"\0") == 1
    library.write_bytes(content.replace(newest + b"\0", b"GLIBC_9" + newest[7:] + b"\0"))
    done = run(folder / "embed", "a cat")
    assert done.returncode != 0
    assert done.stdout == b""
    assert done.stderr.startswith(b"error: Python (glibc too old?) does not load: ")
    assert b"version `GLIBC_9" in done.stderr


def test_a_frozen_program_asks_for_the_signature_that_it_was_built_for(
    store: Store, prepared: PreparedModel, tmp_path: Path
) -> None:
    same_key_in(tmp_path)
    folder = tmp_path / "bundle"
    with host_context(story=Story(quiet=True), store=store) as context:
        key = (tmp_path / "key.pub").read_text()
        made = freeze_runner(model=prepared, platform=PLATFORM, public_key=key, context=context)
        shutil.copytree(made.directory, folder, symlinks=True)
    write_sample(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    files = [path for path in sorted(folder.rglob("*")) if path.is_symlink() or path.is_file()]
    manifest["files"] = [
        file_entry(path, root=folder, part="runner") for path in files if path.name != "manifest.json"
    ]
    (folder / "manifest.json").write_text(json.dumps(manifest))

    def run(*words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([folder / "embed", *words], capture_output=True, env={}, check=False)

    assert run("--check").returncode == 4
    library.sign(folder, key=tmp_path / "key.key")
    assert run("a cat").returncode == 0
    assert run("--check", "--require-signature", str(tmp_path / "key.pub")).returncode == 0
    (folder / "more").write_bytes(b"")
    assert complaint(run("a cat"))[0] == "error: more is not in the manifest, or not as what it is"
