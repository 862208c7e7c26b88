"""Checks of passes, recipes and packages, each shown one that is right and one that is wrong."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.kiosk import prepare_site

from edgepack.errors import EdgepackError
from edgepack.models import judge
from edgepack.models.reference import reference_vectors
from edgepack.testing import write_model
from edgepack.testing.check import Broken
from edgepack.testing.kit import Kit, PluginSubject
from edgepack.testing.suite import BY_AXIS, checks_of_specs

HEAD = """
import random, zipfile
from edgepack import api
from edgepack.api import axes
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
SOURCE = """
import shutil, time
from pathlib import Path

FOLDER = Path("MODEL")

class Shelf:
    def find(self, address, *, context):
        names = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file())
        return axes.RemoteModel(
            name="tiny",
            origin="red://tiny@1",
            pins={"revision": "1"},
            files=tuple(names),
            fetch=lambda name, destination: shutil.copyfile(FOLDER / name, destination),
        )

def make():
    return Shelf()

@api.hookimpl
def edgepack_specs():
    return [api.Spec(axis="source", name="red", summary="", make=make)]
"""
ARCHITECTURE = """
from edgepack.api import graphs

NAMES = graphs.LayerNames(
    query="attention.self.query", key="attention.self.key", value="attention.self.value", dense="attention.output.dense",
    attention_norm="attention.output.LayerNorm", inner="intermediate.dense", outer="output.dense", norm="output.LayerNorm",
)

def write(config, weights, writer):
    encoder = graphs.open_encoder(writer, weights, graphs.read_shape(config), names=())
    hidden = graphs.embed_tokens(encoder, with_types=True)
    return graphs.TokenVectors(name=graphs.write_layers(encoder, hidden, layers="encoder.layer", names=NAMES))

@api.hookimpl
def edgepack_specs():
    return [api.Spec(axis="architecture", name="red", summary="", make=lambda: write)]
"""
CODE = {"pass": PASS, "recipe": RECIPE, "package": PACKAGE, "source": SOURCE, "architecture": ARCHITECTURE}
Found = Callable[..., dict[str, str]]


def _judge(kit: Kit) -> ModuleType:
    """What stands for sentence-transformers: a BERT's vectors, whatever its architecture is called."""

    class Judge:
        def __init__(self, folder: str, **settings: object) -> None:
            pass

        def encode(self, text: str, **settings: object) -> Any:
            return reference_vectors(kit.source, [text], context=kit.context())[0]

    module = ModuleType("sentence_transformers")
    vars(module)["SentenceTransformer"] = Judge
    return module


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Found]:
    """The checks that fail of a plugin with this code, and what they say."""
    model = write_model(tmp_path / "red")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "model_type": "red"}))
    kit = Kit(folder=tmp_path / "kit", models=("red://tiny", str(model)))
    monkeypatch.setattr(judge, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "sentence_transformers", _judge(kit))

    def look(axis: str, *changes: tuple[str, str]) -> dict[str, str]:
        code = CODE[axis].replace("MODEL", str(kit.model))
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


@pytest.mark.sample(1)
@pytest.mark.parametrize("axis", CODE)
def test_what_is_right_passes(found: Found, axis: str) -> None:
    assert found(axis) == {}


ONCE = "    seen.append(1)\n    return model\n\nseen = []\n"


@pytest.mark.sample(5)
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
        ("source", [("def find(", "def seek(")], "is-what-its-axis-asks", "it has no find"),
        ("source", [('{"revision": "1"}', '{"revision": str(time.time())}')], "finds-the-same-twice", "red://tiny: asked again, its pins: "),
        ("source", [('"tiny",', 'address.rpartition("/")[2],')], "finds-the-same-twice", "asked for red://tiny@1, its name: 'tiny@1'"),
        ("source", [("    return Shelf()", "    import urllib.request\n    urllib.request.getproxies() and urllib.request.urlopen('http://models.invalid/')\n    return Shelf()")], "works-offline", "red://tiny: plugin kiosk failed in make of source red: URLError"),
        ("architecture", [("with_types=True", "with_types=False")], "is-the-original", "red: a number differs by"),
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
