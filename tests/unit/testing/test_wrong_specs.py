"""Checks of passes, recipes and packages, each shown one that is right and one that is wrong."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.kiosk import prepare_site

from edgepack.errors import EdgepackError
from edgepack.testing.check import Broken
from edgepack.testing.kit import Kit, PluginSubject
from edgepack.testing.specs import BY_AXIS
from edgepack.testing.suite import checks_of_specs

HEAD = """
import random, zipfile
from edgepack import api
"""
PASS = """
def change(model, note, *, bits: int = 1):
    return model

def make():
    return change

@api.hookimpl
def edgepack_specs():
    return [api.Spec(axis="pass", name="red", summary="", make=make)]
"""
RECIPE = """
@api.hookimpl
def edgepack_specs():
    return [api.Spec(axis="recipe", name="red", summary="", make=lambda: [{"pass": "fuse"}])]
"""
PACKAGE = """
class Zip:
    def __init__(self, target):
        pass

    def file_name(self, bundle):
        return f"{bundle.name}.zip"

    def pack(self, bundle, destination, *, context):
        with zipfile.ZipFile(destination, "w") as archive:
            for path in sorted(bundle.directory.rglob("*")):
                if path.is_file():
                    entry = zipfile.ZipInfo(f"{bundle.name}/{path.relative_to(bundle.directory)}")
                    entry.external_attr = path.stat().st_mode << 16
                    archive.writestr(entry, path.read_bytes())

@api.hookimpl
def edgepack_specs():
    return [api.Spec(axis="package", name="red", summary="", make=Zip)]
"""
CODE = {"pass": PASS, "recipe": RECIPE, "package": PACKAGE}
Found = Callable[..., dict[str, str]]


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Found]:
    """The checks that fail of a plugin with this code, and what they say."""
    kit = Kit(folder=tmp_path / "kit")

    def look(axis: str, *changes: tuple[str, str]) -> dict[str, str]:
        code = CODE[axis]
        for old, new in changes:
            assert old in code, old
            code = code.replace(old, new)
        package = prepare_site(tmp_path / "site", monkeypatch) / "edgepack_kiosk"
        package.mkdir()
        (package / "__init__.py").write_text(HEAD + code)
        monkeypatch.delitem(sys.modules, "edgepack_kiosk", raising=False)
        ((subject, checks),) = checks_of_specs(PluginSubject(kit, "kiosk"))
        assert checks == BY_AXIS[axis]
        broken = {}
        for check in checks:
            try:
                check.run(subject)
            except Broken as error:
                broken[check.name] = error.seen
            except EdgepackError as error:
                broken[check.name] = error.message
        return broken

    yield look
    kit.close()
    sys.modules.pop("edgepack_kiosk", None)


@pytest.mark.parametrize("axis", CODE)
def test_what_is_right_passes(found: Found, axis: str) -> None:
    assert found(axis) == {}


ONCE = "    seen.append(1)\n    return model\n\nseen = []\n"


@pytest.mark.parametrize(
    ("axis", "changes", "check", "words"),
    [
        ("pass", [("return change", "return 5")], "is-what-its-axis-asks", "it is 5"),
        ("pass", [("    return model", "    raise KeyError('x')")], "makes-a-model", "KeyError: 'x'"),
        ("pass", [("    return model", "    return None")], "makes-a-model", ""),
        (
            "pass",
            [("    return model", "    for weights in model.graph.initializer:\n        weights.raw_data = bytes(len(weights.raw_data))\n    return model")],
            "makes-a-model",
            "",
        ),
        ("pass", [("    return model", "    model.doc_string = model.graph.doc_string = str(random.random())\n    return model")], "makes-it-alike", "two runs made two models"),
        ("recipe", [('[{"pass": "fuse"}]', '["fuse"]')], "is-what-its-axis-asks", "it is ['fuse']"),
        ("recipe", [('"fuse"', '"fused"')], "makes-a-model", "fused"),
        ("package", [("def pack(", "def write(")], "is-what-its-axis-asks", "it has no pack"),
        ("package", [("sorted(bundle.directory.rglob", "list(bundle.directory.glob")], "holds-the-bundle", "does not hold the bundle"),
        ("package", [('.zip"', ' new.zip"')], "holds-the-bundle", "it is called"),
        ("package", [("zipfile.ZipInfo(f\"{bundle.name}/{path.relative_to(bundle.directory)}\")", "zipfile.ZipInfo(f\"{bundle.name}/{path.relative_to(bundle.directory)}\", __import__('time').localtime()[:6])")], "packs-alike", "two packages of one bundle differ"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(
    found: Found, axis: str, changes: list[tuple[str, str]], check: str, words: str
) -> None:
    broken = found(axis, *changes)
    assert words in broken[check]
