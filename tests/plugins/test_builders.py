"""Builders that do right and wrong: what the host makes of each, and whose fault it says it is."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from tests.support.golden import ROOT
from tests.support.kiosk import install, prepare_site
from tests.support.schema import against
from tests.support.signed import key_in

from edgepack import pipeline, python_api
from edgepack.bundles.archive import unpack_bundle
from edgepack.bundles.golden import TEXTS
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.console import Story
from edgepack.errors import (
    BundleError,
    DownloadError,
    EdgepackError,
    MismatchError,
    ModelError,
    OutputError,
    PluginError,
    SignatureError,
    TargetError,
    UsageError,
    VerificationError,
)
from edgepack.files.store import Store, sha256_of
from edgepack.finished_bundle import VerifyOptions, verify_again
from edgepack.foundry.link.reduced_library import reduce_runtime
from edgepack.models.find.source import ingest
from edgepack.models.reference import exported_model, reference_vectors
from edgepack.plugins.context import HostContext, host_context
from edgepack.plugins.host import load_plugins
from edgepack.recipes.prepare import prepare_model
from edgepack.records.target import ModelOptions, Platform
from edgepack.testing import write_model
from edgepack.testing.script import PROGRAM
from edgepack.verifier.confined.found import find_sandbox

pytestmark = pytest.mark.tools("env", "python")

EMPTY_RUNTIME = """api.RuntimeArtifact(library=model.file, version="9", kind="x", toolchain="", provides=api.Operators())"""


ELSEWHERE = """
import shutil
own, root = root, pathlib.Path("ELSEWHERE")
if not root.exists():
    shutil.copytree(own, root)
"""
"""The misdeed of a program that computes right, with another model than its bundle's."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One store, so that the model is prepared once."""
    return Store(root=tmp_path_factory.mktemp("store"))


@pytest.fixture
def own(kept: Store) -> Iterator[HostContext]:
    with host_context(story=Story(quiet=True), offline=True, store=kept) as made:
        yield made


@pytest.fixture
def kiosk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the plugin is installed in."""
    return prepare_site(tmp_path / "site", monkeypatch)


def rewrite(folder: Path, old: str, new: str) -> None:
    """Changes the program that the installed plugin brings."""
    code = folder / "edgepack_kiosk" / "__init__.py"
    assert old in code.read_text()
    code.write_text(code.read_text().replace(old, new))


def build(model: Path, output: Path, context: HostContext, *overrides: str) -> pipeline.Outcome:
    host = load_plugins()
    target, context = host.target("kiosk-one", overrides), replace(context, plugins=lambda: host)
    return pipeline.build(target, model=str(model), output=output, context=context)


def test_what_is_missing_is_told_and_the_recipe_checked_before_the_model_is_sought(
    kiosk: Path,
    kept: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install(
        kiosk,
        monkeypatch,
        ("options=lambda: OPTIONS", "options=lambda: OPTIONS, missing=lambda target: ['zig']"),
    )
    (kept.root / "runner" / ("0" * 40)).mkdir(parents=True, exist_ok=True)
    with host_context(story=Story(), offline=True, store=kept) as context:
        with pytest.raises(DownloadError, match="all-MiniLM"):
            build(
                Path("all-MiniLM-L6-v2"),
                tmp_path / "dist",
                context,
                "x-koisk.paint=1",
                "x-kiosk.paint=1",
                "x-deb.a=1",
            )
        told = " ".join(capsys.readouterr().err.split())
        assert "not installed: zig" in told and "pip install" in told
        assert (
            "warning: target kiosk-one: [x-koisk] (did you mean kiosk?) belongs to no installed plugin"
            in told
        )
        assert told.count("belongs to no installed plugin") == 1
        with pytest.raises(TargetError, match="there is no recipe 'int9'"):
            build(Path("all-MiniLM-L6-v2"), tmp_path / "dist", context, "model.recipe=int9")


def test_what_lies_beside_the_place_of_a_bundle_is_not_replaced(
    kiosk: Path, model: Path, own: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive that was sent is often kept without its folder."""
    install(kiosk, monkeypatch)
    place = tmp_path / "tiny-kiosk-one"
    for name in ("tar.zst", "tar.zst.sigstore.json", "provenance.json", "report.json"):
        kept = place.with_name(f"{place.name}.{name}")
        kept.write_text("mine")
        with pytest.raises(OutputError, match=f"{kept.name} already exists"):
            build(model, tmp_path, own)
        assert kept.read_text() == "mine" and not place.exists()
        kept.unlink()
    deb = "package.formats=['deb']"
    (tmp_path / "work").mkdir()
    aside = replace(own, work_dir=tmp_path / "work")
    (made,) = build(model, tmp_path / "other", aside, deb).report.packages
    package = place.with_name(made.file)
    package.write_text("mine")
    with pytest.raises(OutputError, match=f"{package.name} already exists"):
        build(model, tmp_path, own, deb)
    assert package.read_text() == "mine"
    assert not place.exists()


def test_a_strangers_bundle_is_verified_and_needs_its_maker_no_more(
    kiosk: Path, model: Path, own: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = 'api.Spec(axis="checks", name="paint", summary="", make=lambda: lambda model, runtime, target: ["red paint"] * (target.extra["kiosk"]["paint"] == "red"))'
    install(
        kiosk,
        monkeypatch,
        ("return [api.Spec(", f"return [{check}, api.Spec("),
        ('= {"colour": "red"}', '= {"colour": "red", "legs": (4, 3), "paints": None}'),
    )
    with pytest.raises(MismatchError, match=r"do not fit \(check paint of kiosk\): red paint$"):
        build(model, tmp_path / "dist", own, "x-kiosk.paint=red")
    noted: list[str] = []
    monkeypatch.setattr(HostContext, "note", lambda self, line: noted.append(line))
    made = build(
        model, tmp_path / "dist", own, "options.colour=blue", "options.paints=/home/me", "x-kiosk.paint=2.30"
    )
    assert made.report.verification.status == "passed"
    assert made.report.verification.mean_cosine > 0.9999
    manifest = made.bundle.manifest
    assert manifest["made_by"] == {
        "plugin": "edgepack-kiosk",
        "version": "1.2",
        "options": {"colour": "blue", "legs": 4},
    }
    assert manifest["target"]["extra"] == {"kiosk": {"paint": 2.3}}
    assert (manifest["checks"], made.report.checks) == (["paint"], ("paint",))
    assert "model and runtime fit: paint" in made.report.notes
    for notes in (noted, made.report.notes):
        assert "no runtime: the program is all there is" in notes
        assert "operators not matched" not in " ".join(notes)
    written = {"manifest": made.bundle.directory / "manifest.json", "report": made.report_file}
    for name, file in written.items():
        schema = json.loads((ROOT / f"docs/schemas/{name}.json").read_text())
        assert [*against(schema, json.loads(file.read_text()))] == []
    assert manifest["runtime"] is None
    assert manifest["runner"]["command"] == ["embed", "--jsonl", "--out", "jsonl"]
    assert {file["part"] for file in manifest["files"]} >= {"firmware", "model", "runner"}
    assert "firmware" in [part.name for part in made.report.parts]
    (kiosk / "edgepack_kiosk" / "__init__.py").write_text("raise RuntimeError('gone')")
    monkeypatch.delitem(sys.modules, "edgepack_kiosk", raising=False)
    archive = made.bundle.archive
    assert archive is not None
    with host_context(story=Story(quiet=True), offline=True, store=own.store) as context:
        again = verify_again(archive, VerifyOptions(model=str(model), run=True), context=context)
    assert again.status == "passed"


FOLDERS = [
    ("(folder / 'leak').symlink_to('/etc/passwd')", "leak is a link to /etc/passwd, which leads out of the folder"),
    ("(folder / 'leak').symlink_to('../../x/../../etc/passwd')", "leak is a link to ../../x/../../etc/passwd, which is not there"),
    ("(folder / 'all').symlink_to('/etc')", "all is a link to /etc, which leads out of the folder"),
    ("(folder / 'back').symlink_to('../runner/embed')", "back is a link to ../runner/embed, which leads out of the folder"),
    ("(folder / 'gone').symlink_to('nothing')", "gone is a link to nothing, which is not there"),
    ("(folder / 'a').symlink_to('b'); (folder / 'b').symlink_to('a')", " is a link to "),
    ("(folder / 'one').mkdir(); (folder / 'two').symlink_to(folder / 'one')", "two is a link to "),
    ("(folder / ('x' * 201)).touch()", "is a name that not every device can hold"),
    ("(folder / ('d/' * 600)).mkdir(parents=True); (folder / ('d/' * 600) / 'x').touch()", "is a name that not every device can hold"),
    *[(f"(folder / '{name}').touch()", f"a {name}, which is a name of edgepack's own") for name in ("golden.json", "manifest.json", "LICENSES", "signature.sigstore.json")],
    ("(folder / 'model').touch()", "the runner's model is no folder"),
    ("(folder / 'lib').symlink_to('.')", "the runner's lib is no folder"),
    ("raise BaseException('x')", "failed in make_runner: BaseException: x"),
    ("raise type('E', (Exception,), {'__str__': lambda s: 1 / 0})()", "failed in make_runner: E"),
    ("import os; os._exit(3)", "failed in make_runner: it ended the program (SystemExit: 3)"),
    ("__import__('os').mkfifo(folder / 'pipe')", "pipe is neither a file nor a folder"),
    ("(folder / 'a\\nb').touch()", "'a\\nb' is a name that not every device can hold"),
    ("__import__('os').close(__import__('os').open(bytes(folder) + b'/\\xff', 64))", "'\\udcff' is a name that"),
]  # fmt: skip
"""What a builder does in its runner's folder, and what is said of it."""
FIELDS_OF_AN_HONEST_ONE = (
    'directory=folder, program="embed", kind="script", command=COMMAND, parts={"boot.bin": "firmware"}'
)
FIELDS = [
    ('"parts": {"embed": 7}', ": parts is {'embed': 7}, expected Mapping[str, str]"),
    ('"parts": {"../../../../etc/hosts": "settings"}', " names ../../../../etc/hosts, which is not in its folder (parts)"),
    ('"parts": {"none.bin": "firmware"}', " names none.bin, which is not a file in its folder (parts)"),
    ('"versions": {"firmware": 3}', ": versions is {'firmware': 3}"),
    ('"versions": {"firmware": "1\\0"}', ": versions is {'firmware': '1\\x00'}"),
    ('"licenses": [folder / "boot.bin"]', ": licenses is ["),
    ('"licenses": (str(folder / "boot.bin"),)', ": licenses is ("),
    ('"licenses": (bytes(folder / "boot.bin"),)', ": licenses is (b'"),
    ('"licenses": (folder,)', " names "),
    ('"library": "gone.so"', " names gone.so, which is not a file in its folder (library)"),
    ('"command": ["embed"]', ": command is ['embed'], expected tuple[str, ...] or None"),
    ('"command": (b"embed",)', ": command is (b'embed',)"),
    ('"serves": "yes"', ": serves is 'yes', expected a bool"),
    ('"placement": api.Placement(model=("m",), tokenizer="t", runtime=3)', ": placement.runtime is 3, expected a str"),
    ('"placement": api.Placement(model=("/etc/passwd",), tokenizer="t", runtime="r")', " names /etc/passwd, which is not in its folder (placement)"),
    ('"directory": self.context.work_dir', " would ship "),
    ('"directory": __import__("pathlib").Path("/")', " would ship /, the whole of a folder that edgepack works in"),
    ('"directory": folder / "embed"', " names "),
    ('"directory": str(folder)', ": directory is '"),
]  # fmt: skip
"""Fields of a runner, and what is said of them."""


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("return api.prepare_model(source", "raise KeyError('boom'); dict(source")], "failed in prepare_model: KeyError: 'boom'"),
        ([("return api.prepare_model(source", "raise SystemExit(3); dict(source")], "failed in prepare_model: it ended the program"),
        ([("return api.prepare_model(", "api.prepare_model(")], "prepare_model returned None, expected a PreparedModel"),
        ([("return None", "return 'onnxruntime'")], "provide_runtime returned 'onnxruntime', expected a RuntimeArtifact or None"),
        ([("return None", "1 / 0")], "failed in provide_runtime: ZeroDivisionError"),
        ([('program="embed"', 'program="nothing"')], "nothing, which is not a file"),
        ([('program="embed"', 'program="../../../etc/passwd"')], "make_runner names ../../../etc/passwd, which is not in its folder"),
        ([("return api.prepare_model(source, options=self.target.model, context=self.context)", "return GARBAGE(api.prepare_model(source, options=self.target.model, context=self.context), self.context.work_dir / 'x.onnx')"), ("PROGRAM = ", "def GARBAGE(made, file):\n    file.write_bytes(b'garbage')\n    return replace(made, file=file)\n\nPROGRAM = ")], "prepare_model made no model: x.onnx is not a model"),
        ([('folder / "embed").chmod(0o755)', 'folder / "embed").chmod(0o755); raise OSError("full")')], "failed in make_runner: OSError: full"),
        ([("    return Kiosk(target, context)", "    raise ValueError('no')")], "failed in make: ValueError: no"),
        ([("    return Kiosk(target, context)", "    return None")], "what builder kiosk makes has no prepare_model, provide_runtime, make_runner"),
        ([("def make_runner", "def freeze_runner")], "what builder kiosk makes has no make_runner"),
        *[
            ([("        return api.RunnerArtifact(", f"        {code}\n        return api.RunnerArtifact(")], words)
            for code, words in FOLDERS
        ],
        *[
            ([(FIELDS_OF_AN_HONEST_ONE, f'**{{**dict({FIELDS_OF_AN_HONEST_ONE}), {fields}}}')], f"make_runner{words}")
            for fields, words in FIELDS
        ],
    ],
)  # fmt: skip
def test_what_goes_wrong_in_a_step_names_plugin_and_step(
    kiosk: Path,
    model: Path,
    own: HostContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: list[tuple[str, str]],
    words: str,
) -> None:
    install(kiosk, monkeypatch, *changes)
    with pytest.raises(PluginError) as caught:
        build(model, tmp_path / "dist", own)
    assert caught.value.message.startswith("plugin kiosk")
    assert words in caught.value.message
    assert not [*(tmp_path / "dist").glob("*")] if (tmp_path / "dist").exists() else True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("1 / 0", "failed in edgepack_bundle_written: ZeroDivisionError"),
        ("raise TargetError('no')", "failed in edgepack_bundle_written: no"),
        ("(bundle.directory / 'embed').write_text('echo')", "changed the bundle in edgepack_bundle_written: .*embed is damaged"),
    ],
)  # fmt: skip
def test_who_is_told_of_a_bundle_answers_for_what_it_does(
    kiosk: Path,
    model: Path,
    own: HostContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    words: str,
) -> None:
    hook = f"\nfrom edgepack.errors import TargetError\n@api.hookimpl\ndef edgepack_bundle_written(bundle):\n    {code}\n"
    install(kiosk, monkeypatch, ("\nPROGRAM = ", f"{hook}\nPROGRAM = "))
    with pytest.raises(PluginError, match=f"plugin kiosk {words}"):
        build(model, tmp_path / "dist", own)
    (archive,) = (tmp_path / "dist").glob("*.tar.zst")
    unpacked = open_bundle(unpack_bundle(archive, tmp_path / "unpacked"))
    folder = tmp_path / "dist" / unpacked.name
    # What has the bundle's name is what was verified.
    assert folder.exists() != ("changed the bundle" in words)
    aside = folder.with_name(folder.name + ".changed-by-kiosk")
    assert (open_bundle(folder) == replace(unpacked, directory=folder)) if folder.exists() else aside.is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("end", [".tar.zst", ".report.json", ".provenance.json"])
def test_what_is_beside_a_bundle_is_what_was_verified_or_has_another_name(
    kiosk: Path, model: Path, own: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    file = f"bundle.directory.with_name(bundle.name + {end!r})"
    hook = f"\n@api.hookimpl\ndef edgepack_bundle_written(bundle):\n    {file}.write_text('other'); 1 / 0\n"
    install(kiosk, monkeypatch, ("\nPROGRAM = ", f"{hook}\nPROGRAM = "))
    with pytest.raises(PluginError, match=r"changed the bundle in .*: tiny-kiosk-one.* is another file now"):
        build(model, tmp_path / "dist", own)
    changed = tmp_path / "dist" / f"tiny-kiosk-one{end}"
    assert not changed.exists()
    assert changed.with_name(f"{changed.name}.changed-by-kiosk").read_text() == "other"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("misdeed", "words"),
    [
        ('print(sys.stdin.read(), end=""); raise SystemExit', "answered with invalid vectors"),
        ('for line in sys.stdin: print(json.dumps({"embedding": [1.0] + [0.0] * 31}))', "differ from the stock library"),
        ('(root / "seen.txt").write_text("me")', "changed its bundle while it ran: .*seen.txt is not in the manifest"),
        ('for line in [*sys.stdin][1:]: print(json.dumps({"embedding": [1.0] * 32}))', "answered with invalid vectors: 11 lines for 12"),
        ('for line in sys.stdin: print(json.dumps({"embedding": ["a"] * 32}))', "invalid vectors"),
        ('for line in sys.stdin: print(json.dumps({"embedding": [float("nan")] * 32}))', r"runs on tiny-kiosk-one \(this CPU\), but the vector of '.*' is not finite \(made by plugin kiosk\)"),
        ('import random\nfor line in sys.stdin: print(json.dumps({"embedding": [random.gauss(0, 1) for _ in range(32)]}))', "differ from the stock library"),
        ("raise SystemExit(7)", "the program of tiny-kiosk-one failed"),
        (ELSEWHERE, "the same vectors with zeros for its model .model/model.onnx.: the program does not use it"),
    ],
    ids=["echo", "constant", "writes", "one too few", "strings", "not finite", "random", "fails", "elsewhere"],
)  # fmt: skip
def test_a_program_that_lies_or_meddles_is_no_bundle(
    kiosk: Path,
    model: Path,
    own: HostContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    misdeed: str,
    words: str,
) -> None:
    install(kiosk, monkeypatch, misdeed=misdeed.replace("ELSEWHERE", str(tmp_path / "elsewhere")))
    if "seen.txt" in misdeed or misdeed == ELSEWHERE:
        # In a sandbox there is nothing that could be written to, and that a later run would see.
        monkeypatch.setattr("edgepack.verifier.run.find_sandbox", lambda: None)
    with pytest.raises(EdgepackError, match=words):
        build(model, tmp_path / "dist", own)
    assert not [path for path in (tmp_path / "dist").iterdir() if not path.name.startswith(".")]


@pytest.mark.skipif(find_sandbox() is None, reason="no sandbox works on this machine")
def test_a_program_that_writes_into_its_bundle_cannot(
    kiosk: Path, model: Path, own: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(kiosk, monkeypatch, misdeed='(root / "seen.txt").write_text("me")')
    with pytest.raises(EdgepackError, match="Read-only file system"):
        build(model, tmp_path / "dist", own)


@pytest.mark.slow
def test_a_bundle_from_elsewhere_does_not_set_its_own_limits_nor_name_what_is_fetched(
    kiosk: Path, model: Path, own: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(kiosk, monkeypatch)
    made = build(model, tmp_path / "dist", own).bundle.directory
    noise = "def noisy(vector):\n    vector[16:] = 0.2\n    return vector / numpy.linalg.norm(vector)\n"
    noisy = PROGRAM.replace("MISDEED", noise)
    noisy = noisy.replace("session.run(None, feeds)[0][0]", "noisy(session.run(None, feeds)[0][0])")
    (made / "embed").write_text(noisy)
    manifest = json.loads((made / "manifest.json").read_text())
    (entry,) = [file for file in manifest["files"] if file["path"] == "embed"]
    entry["size"], entry["sha256"] = len(noisy), sha256_of(made / "embed")
    manifest["gate"] = {"gate": "off", "min_cosine": 0.0}
    manifest["model"]["origin"] = "hf:someone/else"
    manifest["model"]["precision"] = "int8"
    (made / "manifest.json").write_text(json.dumps(manifest))
    # The program's interpreter lies where a sandbox shows nothing.
    monkeypatch.setattr("edgepack.verifier.run.find_sandbox", lambda: None)
    with pytest.raises(UsageError, match="its model is hf:someone/else, and edgepack does not fetch"):
        verify_again(made, VerifyOptions(run=True), context=own)
    for limits in (None, ModelOptions(min_cosine=0.9999)):
        with pytest.raises(
            VerificationError, match="differ too much from the full-precision model: mean cosine"
        ):
            verify_again(made, VerifyOptions(model=str(model), limits=limits, run=True), context=own)
    asked = VerifyOptions(model=str(model), limits=ModelOptions(min_long_cosine=0), run=True)
    with pytest.raises(BundleError, match=r"golden vectors of .* are not those that its program gives"):
        verify_again(made, asked, context=own)
    monkeypatch.setattr("edgepack.verifier.judge.require_golden", lambda bundle, embed: None)
    assert verify_again(made, asked, context=own).mean_cosine < 0.985


def _killed_at(rename: int, model: Path, output: Path, store: Store) -> bool:
    """Whether a build that replaces a bundle was killed at that rename of those that put things into their places."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9
    left = [rename]

    def counted(move: Callable[[Path, Path], Path]) -> Callable[[Path, Path], Path]:
        def moved(path: Path, to: Path) -> Path:
            if Path(to).parent == output:
                left[0] -= 1
                if left[0] == 0:
                    os._exit(9)
            return move(path, to)

        return moved

    try:
        Path.rename, Path.replace = counted(Path.rename), counted(Path.replace)  # type: ignore[method-assign,assignment]
        with host_context(story=Story(quiet=True), offline=True, store=store) as context:
            pipeline.build(
                context.plugins().target("kiosk-one", ()),
                model=str(model),
                output=output,
                force=True,
                context=context,
            )
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.slow
def test_a_build_killed_while_it_replaces_a_bundle_leaves_nothing_beside_another_bundle(
    kiosk: Path, model: Path, own: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "dist"
    install(kiosk, monkeypatch)
    made = build(model, output, own)
    code = kiosk / "edgepack_kiosk" / "__init__.py"
    old = code.read_text()
    rename = 0
    while rename == 0 or _killed_at(rename, model, output, own.store):
        rename += 1
        bundle, archive = made.bundle.directory, made.bundle.archive
        assert archive is not None
        if bundle.exists():
            kept = open_bundle(bundle)
            if archive.exists():
                assert digest(open_bundle(unpack_bundle(archive, tmp_path / f"unpacked{rename}"))) == digest(
                    kept
                )
            if made.report_file.exists():
                assert json.loads(made.report_file.read_text())["digest"] == digest(kept)
        # Each of them another bundle.
        code.write_text(old.replace('b"firmware"', f'b"firmware {rename}"'))
        monkeypatch.delitem(sys.modules, "edgepack_kiosk", raising=False)
    assert rename > 4


def test_a_program_for_the_device_alone_is_not_verified(
    kiosk: Path, model: Path, own: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(kiosk, monkeypatch, ("COMMAND: tuple[str, ...] | None = ()", "COMMAND = None"))
    made = build(model, tmp_path / "dist", own)
    assert made.report.verification.status == "not verified"
    assert made.report.verification.reason == "its program runs on the device alone"


def test_a_part_has_a_plain_name(
    kiosk: Path, model: Path, own: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(kiosk, monkeypatch, ('"boot.bin": "firmware"', '"boot.bin": "My Firmware"'))
    with pytest.raises(PluginError, match=r"plugin kiosk: the runner calls boot\.bin a part 'My Firmware'"):
        build(model, tmp_path / "dist", own)


@pytest.mark.slow
def test_a_runtime_that_lacks_kernels_is_refused_and_an_unknown_one_is_said_to_be_unmatched(
    kiosk: Path, model: Path, own: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(kiosk, monkeypatch, ("return None", f"return {EMPTY_RUNTIME}"))
    with pytest.raises(MismatchError, match="the runtime lacks"):
        build(model, tmp_path / "dist", own)
    code = kiosk / "edgepack_kiosk" / "__init__.py"
    code.write_text(code.read_text().replace("provides=api.Operators()", "provides=None"))
    monkeypatch.delitem(sys.modules, "edgepack_kiosk", raising=False)
    made = build(model, tmp_path / "dist", own)
    assert open_bundle(made.bundle.directory).manifest["runtime"]["operators"] is None
    assert [note for note in made.report.notes if "not matched" in note] == [
        "operators not matched: the runtime is not reduced to the model's, or these are not known"
    ]


PREPARE = "return api.prepare_model(source, options=self.target.model, context=self.context)"
OWN_FORMAT = (
    (PREPARE, "return own_format(self, source)"),
    ('Spec(axis="builder"', 'Spec(formats=("squeezed",), axis="builder"'),
    ("return None", 'return api.RuntimeArtifact(library=model.file.with_name("libkiosk.so.9"), name="Kiosk Engine", version="9.1", kind="stock", toolchain="", provides=None)'),
    ("\nPROGRAM = ", """
import gzip, pathlib

def own_format(kiosk, source):
    made = api.prepare_model(source, options=replace(kiosk.target.model, format="onnx"), context=kiosk.context)
    file = kiosk.context.work_dir / "tiny.squeezed"
    file.write_bytes(gzip.compress(made.file.read_bytes(), mtime=0))
    file.with_name("libkiosk.so.9").write_text("an engine")
    return replace(made, file=file, format="squeezed", needs=None, oracle=ORACLE)

ORACLE = None
PROGRAM = """),
)  # fmt: skip
UNSQUEEZED = ('root / "model" / "model.onnx"', '__import__("gzip").decompress((root / "model" / "model.squeezed").read_bytes())')  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("oracle", [True, False])
def test_a_model_that_onnx_runtime_does_not_read_ships_as_what_it_is(
    kiosk: Path, model: Path, own: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oracle: bool
) -> None:
    install(kiosk, monkeypatch, *OWN_FORMAT, *[("oracle=ORACLE", "oracle=made.file")] * oracle)
    rewrite(kiosk, *UNSQUEEZED)
    made = build(model, tmp_path / "dist", own, "model.format=squeezed")
    assert made.report.verification.status == "passed"
    manifest = made.bundle.manifest
    assert (manifest["model"]["format"], manifest["model"]["file"]) == ("squeezed", "model/model.squeezed")
    assert (manifest["runtime"]["name"], manifest["runtime"]["operators"]) == ("Kiosk Engine", None)
    assert not [file["path"] for file in manifest["files"] if file["path"].endswith(".onnx")]
    assert "runtime: Kiosk Engine 9.1 (stock)" in made.report.notes
    assert "operators not matched: the model's file is no ONNX graph (squeezed)" in made.report.notes
    notices = (made.bundle.directory / "LICENSES/Kiosk-Engine.txt").read_text()
    assert notices == "Kiosk Engine 9.1 (stock). Its licence text did not come with the library.\n"
    golden = json.loads((made.bundle.directory / "golden.json").read_text())
    source = ingest(str(model), context=own)
    assert golden["vectors"] == pytest.approx(reference_vectors(source, TEXTS, context=own), abs=1e-4)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("oracle", "words"),
    [
        ("OTHER", r"prepare_model made no oracle: it has mean cosine -?0\.\d+ to the full-precision model, below 0.99"),
        ("file", "prepare_model made no oracle: tiny.squeezed is not a model"),
        ("pathlib.Path('gone.onnx')", "prepare_model names gone.onnx, which is not a file"),
        ("pathlib.Path('IDENTITY')", "failed in prepare_model's oracle: "),
    ],
)  # fmt: skip
def test_an_oracle_that_is_not_the_model_is_the_plugins_fault(
    kiosk: Path,
    model: Path,
    own: HostContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    oracle: str,
    words: str,
) -> None:
    other = ingest(str(write_model(tmp_path / "other", seed=7)), context=own)
    identity = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["y"])],
        "identity",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])],
    )
    onnx.save(onnx.helper.make_model(identity, ir_version=9), tmp_path / "identity.onnx")
    place = {"OTHER": f"pathlib.Path({str(exported_model(other, context=own))!r})"}
    said = place.get(oracle, oracle.replace("IDENTITY", str(tmp_path / "identity.onnx")))
    install(kiosk, monkeypatch, *OWN_FORMAT, ("oracle=ORACLE", f"oracle={said}"))
    with pytest.raises(PluginError, match=f"plugin kiosk:? {words}"):
        build(model, tmp_path / "dist", own, "model.format=squeezed")


def test_a_format_of_nobody_is_refused_before_anything_is_fetched(
    kiosk: Path, monkeypatch: pytest.MonkeyPatch, model: Path, own: HostContext
) -> None:
    install(kiosk, monkeypatch, *OWN_FORMAT)
    host = load_plugins()
    with pytest.raises(TargetError, match=r"format is 'squeeze' \(did you mean squeezed\?\)") as caught:
        host.builder_of(host.target("kiosk-one", ["model.format=squeeze"]))
    assert caught.value.hint == "formats of builder kiosk: onnx, ort, ort-runtime-opt, squeezed"
    with pytest.raises(TargetError, match=r"format is 'squeezed'"):
        host.builder_of(host.target("linux-x86", ["model.format=squeezed"]))
    with pytest.raises(TargetError, match="unknown model format 'squeezed'"):
        prepare_model(ingest(str(model), context=own), options=ModelOptions(format="squeezed"), context=own)


@pytest.mark.slow
def test_needs_that_are_not_known_are_not_claimed_to_be_met(
    kiosk: Path, model: Path, own: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        kiosk,
        monkeypatch,
        ("return None", f"return {EMPTY_RUNTIME}"),
        (PREPARE, f"return replace({PREPARE[7:]}, needs=None)"),
    )
    made = build(model, tmp_path / "dist", own)
    assert made.bundle.manifest["runtime"]["operators"] is None
    with pytest.raises(ModelError, match="a model with unknown operators"):
        reduce_runtime(None, platform=Platform(os="linux", arch="x86_64"), context=own)


def test_an_unknown_axis_is_refused(kiosk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(kiosk, monkeypatch, ('axis="builder"', 'axis="flavour"'))
    info = next(plugin for plugin in load_plugins().plugins if plugin.name == "kiosk")
    assert "'flavour'; plugins bring: builder" in info.error


@pytest.mark.slow
def test_a_bundle_is_signed_before_it_is_packed(
    kiosk: Path, model: Path, kept: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Archive and package hold the bundle's signature, and have one each; a bundle made anew without one takes them away."""
    install(kiosk, monkeypatch)
    key, public = key_in(tmp_path), tmp_path / "key.pub"
    target = load_plugins().target("kiosk-one", ['package.formats=["deb"]'])
    with host_context(story=Story(quiet=True), offline=True, store=kept) as context:
        made = pipeline.build(target, model=str(model), output=tmp_path, key=key, context=context)
    assert made.bundle.archive is not None
    for number, file in enumerate((made.bundle.archive, next(tmp_path.glob("*.deb")))):
        assert python_api.check_signature(file, key=public).name == made.bundle.name
        unpacked = unpack_bundle(file, tmp_path / f"unpacked {number}")
        assert python_api.check_signature(unpacked, key=public).name == made.bundle.name
    with host_context(story=Story(quiet=True), offline=True, store=kept) as context:
        pipeline.build(target, model=str(model), output=tmp_path, force=True, context=context)
    assert not list(tmp_path.glob("*.sigstore.json"))
    with pytest.raises(SignatureError, match="is not signed"):
        python_api.check_signature(made.bundle.directory, key=public)
