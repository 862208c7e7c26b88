"""Each check of the kit, shown a plugin that breaks its rule and no other of the cheap ones."""

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgepack.building import steps
from edgepack.errors import EdgepackError
from edgepack.plugins import builder, host, spec
from edgepack.plugins.blame import blamed_on
from edgepack.testing import building, contents, hindered, programs, registration, write_static_model
from edgepack.testing.check import Broken, KitCheck, NotSeen
from edgepack.testing.kit import PluginSubject, TargetSubject
from edgepack.testing.suite import PLUGIN_CHECKS, TARGET_CHECKS

pytestmark = pytest.mark.tools("python", "env", may=("setpriv", "embed", "nice"))

Wrong = Callable[..., TargetSubject]

SLOW = {"types"}
"""mypy reads all of edgepack."""


def broken(checks: list[KitCheck], subject: object) -> dict[str, str]:
    """The checks that fail, and what is said."""
    found = {}
    for check in checks:
        try:
            check.run(subject)
        except Broken as error:
            found[check.name] = error.seen
        except EdgepackError as error:
            found[check.name] = error.message
        except NotSeen:
            pass
    return found


def plugin_checks(*leave_out: str) -> list[KitCheck]:
    return [check for check in PLUGIN_CHECKS if check.name not in {*SLOW, *leave_out}]


@pytest.mark.slow
def test_an_honest_plugin_passes(honest: TargetSubject) -> None:
    assert broken(plugin_checks(), PluginSubject(honest.kit, "kiosk")) == {}
    for check in TARGET_CHECKS:
        check.run(honest)  # none is skipped, either


TABLES_ONLY = (
    "        return api.prepare_model(",
    "        kit.static_table(source)\n        return api.prepare_model(",
)


@pytest.mark.slow
def test_a_builder_is_checked_with_the_kind_of_model_that_it_takes(wrong: Wrong) -> None:
    subject = wrong(TABLES_ONLY, before="from edgepack.api import kit\n", built=False)
    building.builds.run(subject)
    assert subject.model == subject.kit.static_model
    for check in (building.two_builds_alike, programs.verifies_elsewhere, programs.tokenizes_alike):
        check.run(subject)


@pytest.mark.slow
def test_a_model_that_was_given_goes_first(wrong: Wrong, tmp_path: Path) -> None:
    subject = wrong(built=False)
    given = write_static_model(tmp_path / "given", seed=2)
    subject = replace(subject, kit=replace(subject.kit, models=("pypi:none==1", str(given))))
    assert subject.model == given
    assert subject.source.config["model_type"] == "static-embedding"


@pytest.mark.slow
def test_a_builder_that_takes_none_of_the_models_is_told_to_name_one(wrong: Wrong) -> None:
    refusal = (
        "        return api.prepare_model(",
        "        raise api.UnsupportedModelError('no T5')\n        return api.prepare_model(",
    )
    with pytest.raises(Broken, match="no T5") as caught:
        building.builds.run(wrong(refusal, built=False))
    assert "--edgepack-model FOLDER" in caught.value.do


@pytest.mark.slow
def test_an_honest_plugin_passes_mypy(wrong: Wrong) -> None:
    untyped = (
        "try:\n    import no_such_package  # type: ignore[import-not-found]\nexcept ImportError:\n    pass\n"
    )
    registration.types.run(PluginSubject(wrong(before=untyped).kit, "kiosk"))


@pytest.mark.slow
def test_wrong_types_are_found(wrong: Wrong) -> None:
    subject = wrong(("(self, source: api.ModelSource)", "(self, source: int)"))
    with pytest.raises(Broken, match='expected "ModelSource"'):
        registration.types.run(PluginSubject(subject.kit, "kiosk"))


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("check", "changes", "before", "words"),
    [
        ("loads", [("def edgepack_specs()", "def edgepack_specs(target: str)")], "", "target"),
        ("loads", [('name="kiosk"', 'name="linux"')], "", "builder linux is registered already"),
        ("loads", [("return [files(__name__)", "return [] and [files(__name__)"), ("return [api.Spec", "return [] and [api.Spec")], "", "it registers nothing"),
        ("hooks-are-marked", [("@api.hookimpl\ndef edgepack_targets", "def edgepack_targets")], "", "edgepack_targets has no mark"),
        ("imports-nothing-heavy", [], "import numpy\n", "it imports numpy"),
        ("imports-nothing-heavy", [], "import time; time.sleep(1.2)\n", "it took 1."),
        ("import-is-silent", [], "print('loaded')\n", "it printed 'loaded"),
        ("import-changes-nothing", [], "import os; os.chdir('/')\n", "the working folder"),
        ("import-changes-nothing", [], "import os; os.environ['PATH'] = ''\n", "PATH"),
        ("import-changes-nothing", [], "import signal; signal.signal(2, signal.SIG_IGN)\n", "what SIGINT does"),
        ("import-changes-nothing", [], "import warnings; warnings.simplefilter('error')\n", "which warnings are errors"),
        ("import-changes-nothing", [], "import threading; threading.Timer(600, print).start()\n", "which threads a program waits for"),
        ("import-reaches-nothing", [], "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 1), 0.1)\nexcept OSError:\n    pass\n", "socket."),
        ("import-reaches-nothing", [], "import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])\n", "subprocess.Popen"),
        ("targets-can-be-built", [('OPTIONS: api.OptionTable = {"colour"', 'OPTIONS: api.OptionTable = {"recipe"')], "", "recipe cannot be a builder's"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_plugin_as_it_is_found(
    wrong: Wrong, check: str, changes: list[tuple[str, str]], before: str, words: str
) -> None:
    subject = wrong(*changes, before=before)
    found = broken(plugin_checks(), PluginSubject(subject.kit, "kiosk"))
    assert list(found) == [check]
    assert words in found[check]


def test_a_distribution_that_requires_no_edgepack(
    wrong: Wrong, tmp_path_factory: pytest.TempPathFactory
) -> None:
    subject = wrong()
    metadata = next(PluginSubject(subject.kit, "kiosk").folder.parent.glob("*.dist-info/METADATA"))
    for requires, words in (
        ("", "requires nothing"),
        ("Requires-Dist: edgepack>=77\n", "it requires edgepack>=77"),
    ):
        metadata.write_text(f"Metadata-Version: 2.1\nName: edgepack-kiosk\nVersion: 1.2\n{requires}")
        found = broken(plugin_checks(), PluginSubject(subject.kit, "kiosk"))
        assert list(found) == ["requires-edgepack"]
        assert words in found["requires-edgepack"]


def test_a_plugin_for_the_interface_before(wrong: Wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        spec, "INTERFACES", {**spec.INTERFACES, "builder": spec.Interfaces(newest=3, ends="0.2")}
    )
    monkeypatch.setattr(host, "INTERFACES", spec.INTERFACES)
    found = broken([registration.speaks_the_newest_interface], PluginSubject(wrong().kit, "kiosk"))
    assert (
        "written for interface 2, which edgepack 0.2 no longer speaks" in found["speaks-the-newest-interface"]
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("check", "changes", "words"),
    [
        (building.unknown_option, [("    api.read_options(target, OPTIONS)\n", "")], "no_such_option was taken"),
        (building.unknown_platform, [('    api.require_platform(target, os="linux", architectures=("x86_64",))\n', "")], "a platform plan9 on vax was taken"),
        (building.unknown_option, [("    api.read_options", "    context.store.cached('k', {'a': 'b'}, lambda folder: (folder / 'x').write_text('x') and None)\n    api.read_options")], "put into the cache"),
        (building.unknown_option, [("    api.read_options", "    assert not target.options\n    api.read_options")], "failed in make: AssertionError"),
        (building.two_builds_alike, [('b"firmware"', "__import__('os').urandom(8)")], "two builds differ in boot.bin"),
        (building.two_builds_alike, [('kind="script"', "kind=str(__import__('time').time())")], "differ in manifest.json"),
        (building.has_what_it_says, [("return None", 'return api.RuntimeArtifact(library=model.file, version="9", kind="x", toolchain="", provides=model.needs)')], "asked for NoSuchOperator"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_build(
    wrong: Wrong,
    monkeypatch: pytest.MonkeyPatch,
    check: KitCheck,
    changes: list[tuple[str, str]],
    words: str,
) -> None:
    monkeypatch.setattr(steps, "require_used_files", lambda *_, **__: None)  # runs the program many times
    subject = wrong(*changes)
    with pytest.raises((Broken, EdgepackError)) as caught:
        check.run(subject)
    assert words in str(caught.value)


def test_a_plugin_that_takes_its_name_out_of_what_is_said(
    wrong: Wrong, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "blamed_on", blamed_on)  # put back afterwards
    patch = "from contextlib import nullcontext\nfrom edgepack.plugins import builder\nbuilder.blamed_on = lambda *_, **__: nullcontext()\n"
    subject = wrong(before=patch)
    _ = subject.kit.host
    with pytest.raises(Broken, match="make raised, and what was said is"):
        building.failures_are_blamed.run(subject)


# What is wrong begins before the runner is announced, which is when the signal comes: however busy the machine is, it comes into the middle.
SLEEPS = "        __import__('time').sleep(5)\n        folder.mkdir()"
DEAF = "__import__('signal').signal(15, lambda *_: None)"
BUSY = "(self.context.store.root / 'busy').touch(exist_ok=False)"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("check", "changes", "words"),
    [
        (building.builds, [("return None", "1 / 0")], "plugin kiosk failed in provide_runtime: ZeroDivisionError"),
        (building.leaves_nothing_elsewhere, [("        folder.mkdir()", "        from pathlib import Path; (Path.home() / 'notes.txt').write_text('x')\n        folder.mkdir()")], "it left home/notes.txt"),
        (hindered.interrupted_leaves_nothing, [("        folder.mkdir()", f"        {DEAF}\n{SLEEPS}")], "it went on as if nothing had been"),
        (hindered.killed_leaves_nothing, [("return None", BUSY), ("        folder.mkdir()", SLEEPS)], "the build after one that was killed ended with 4: error: plugin kiosk failed in provide_runtime: FileExistsError"),
        (hindered.works_offline, [("        folder.mkdir()", "        __import__('urllib.request').request.urlopen('http://models.invalid/list', timeout=9)\n        folder.mkdir()")], "a build without a network ended with"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_build_in_a_process_of_its_own(
    wrong: Wrong, check: KitCheck, changes: list[tuple[str, str]], words: str
) -> None:
    subject = wrong(*changes, built=check in hindered.CHECKS)
    assert words in broken([check], subject)[check.name]


@pytest.mark.slow
def test_what_runs_on_the_device_alone_is_never_passed(wrong: Wrong) -> None:
    subject = wrong(
        ("COMMAND: tuple[str, ...] | None = ()", "COMMAND: tuple[str, ...] | None = None"), built=False
    )
    building.builds.run(subject)
    for check in (building.is_verified, *programs.CHECKS):
        with pytest.raises(NotSeen, match="its program runs on the device alone"):
            check.run(subject)


def shared_library(machine: int, needed: bytes = b"libc.so.6", version: bytes = b"GLIBC_2.17") -> bytes:
    """Nothing but sections: which library it needs, and which version of its symbols."""
    names = b"\0" + needed + b"\0" + version + b"\0"
    dynamic = struct.pack("<QQQQ", 1, 1, 0, 0)
    versions = struct.pack("<HHIII", 1, 1, 1, 16, 0) + struct.pack("<IHHII", 0, 0, 2, len(needed) + 2, 0)
    at, contents, headers = 64, b"", bytes(64)
    for kind, content, info, size in ((3, names, 0, 0), (6, dynamic, 0, 16), (0x6FFFFFFE, versions, 1, 0)):
        headers += struct.pack(
            "<IIQQQQIIQQ", 0, kind, 0, 0, at + len(contents), len(content), 1, info, 1, size
        )
        contents += content
    ident = b"\x7fELF\2\1\1" + bytes(9)
    head = struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, at + len(contents), 0, 64, 56, 0, 64, 4, 0)
    return ident + head + contents + headers


@pytest.mark.parametrize(
    ("check", "files", "sections", "words"),
    [
        (contents.runs_on_its_platform, {"paint.so": shared_library(183)}, {}, "paint.so is for aarch64"),
        (contents.runs_on_its_platform, {"paint.so": shared_library(62, b"libpaint.so.1")}, {}, "needs libpaint.so.1, which the bundle does not hold"),
        (contents.runs_on_its_platform, {"paint.so": shared_library(62, version=b"GLIBC_2.34")}, {}, "paint.so needs glibc 2.34"),
        (contents.licences, {"LICENSES/edgepack.txt": b"\n"}, {}, "LICENSES/edgepack.txt is not there, or holds no licence"),
        (contents.licences, {"LICENSES/NOTICES.txt": b"of:\n\ncomponent version licence\npaint 1 paint.txt\n"}, {}, "LICENSES/paint.txt is not there"),
        (contents.licences, {}, {"runtime": {"name": "paint", "version": "1", "kind": "paint", "library": "embed"}}, "LICENSES/paint.txt is not there"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_files_of_a_bundle(
    with_files: Callable[..., TargetSubject],
    check: KitCheck,
    files: dict[str, bytes],
    sections: dict[str, object],
    words: str,
) -> None:
    subject = with_files({"sound.so": shared_library(62), **files}, **sections)
    vars(subject)["target"] = replace(subject.target, platform=replace(subject.target.platform, glibc="2.28"))
    found = broken([*contents.CHECKS], subject)
    assert list(found) == [check.name]
    assert words in found[check.name]


PER_LINE = "for line in sys.stdin:"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("check", "changes", "misdeed", "words"),
    [
        (programs.verifies_elsewhere, [], "assert ' ' not in str(root)", "the program of"),
        (programs.unchanged_by_running, [(PER_LINE, 'import atexit\natexit.register(lambda: (root / "seen.txt").write_text("x"))\n' + PER_LINE)], "", "seen.txt is not in the manifest"),
        (programs.same_twice, [('"embedding": session', '"embedding": (numpy.random.rand() * 1e-6 + numpy.array(session'), ("[0][0].tolist()", "[0][0])).tolist()")], "", "a second run gave other numbers"),
        (programs.same_twice, [(PER_LINE, "for at, line in enumerate(sys.stdin):"), (".encode(text)", ".encode(text + ' river' * at)")], "", "in another order a text's vector has cosine"),
        (programs.takes_strange_texts, [('.encode("utf-16", "surrogatepass").decode("utf-16", "replace")', "")], "", "a lone surrogate"),
        (programs.takes_strange_texts, [("    ids = ", "    assert text, 'no text'\n    ids = ")], "", "an empty text"),
        (programs.takes_strange_texts, [("    ids = ", "    assert len(text) < 4000, 'too long'\n    ids = ")], "", "a text of 3,000 words"),
        (programs.takes_strange_texts, [(PER_LINE, "import atexit\n" + PER_LINE), ("[0][0].tolist()", "[0][0].tolist() if text else [2.0] * 32")], "", "an empty text: its vector has length"),
        (programs.takes_strange_texts, [(PER_LINE, "lines = [*sys.stdin]\nif not lines:\n    print('nothing to do')\nfor line in lines:")], "", "without a line it ended with 0 and wrote 'nothing"),
        (programs.speaks_json_lines, [("    text = json", "    assert list(json.loads(line)) == ['text']\n    text = json")], "", "it ended with 1"),
        (programs.speaks_json_lines, [(PER_LINE, "for line in sys.stdin:\n    if not line.endswith(chr(10)):\n        break")], "", "a last line without a line feed"),
        (programs.speaks_json_lines, [(PER_LINE, "for line in sys.stdin:\n    if line[1] != chr(34):\n        break")], "", "a line that is no JSON: it ended with 0"),
        (programs.needs_its_files, [("from_file(str(root", "from_str(TOKENIZER) or (str(root")], "", "with zeros for its tokenizer"),
        (programs.says_what_is_missing, [], "if not (root / 'model' / 'model.onnx').exists(): raise SystemExit", "it ended with 0"),
        (programs.says_what_is_missing, [], "if not (root / 'model' / 'model.onnx').exists(): raise SystemExit(4)", "it said nothing"),
        (programs.tokenizes_alike, [(".encode(text)", ".encode(text.replace('ä', 'a').replace('\\u0301', 'x'))")], "", "to the shipped model's own vector"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_program(
    with_program: Callable[..., TargetSubject],
    honest: TargetSubject,
    check: KitCheck,
    changes: list[tuple[str, str]],
    misdeed: str,
    words: str,
) -> None:
    inside = repr((honest.kit.model / "tokenizer.json").read_text(encoding="utf-8"))
    subject = with_program(
        *((old, new.replace("TOKENIZER", inside)) for old, new in changes), misdeed=misdeed
    )
    assert words in broken([check], subject).get(check.name, "it holds")
