"""A source tree of a few files, the release whose room is tried, and the tree of the next release, which tests alter."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

from bin.draft_release import VERSION_FILE, Tree
from tests.unit.foundry.toy import FILES, PATCHES, UNITS, toy_release

from edgepack.foundry.link.index import dump_index
from edgepack.foundry.patch import Patch
from edgepack.foundry.release import Release
from edgepack.foundry.sources.tree import HEADER
from edgepack.foundry.symbols import Symbols

SIZES = "core/framework/sizes.cc"
CHECKS = "core/common/checks.h"
LOOKED_UP = "static size_t ElementSize(int type) {"
TEXTS = {
    SIZES: (
        "namespace onnxruntime {\n"
        "size_t OtherThingThatStays(int type) {\n  return static_cast<size_t>(type) * 2;\n}\n"
        f"{LOOKED_UP}\n  return LookUpByName(NameOfType(type));\n}}\n"
        "size_t SizeOfBuffer(int type, size_t count) {\n  return ElementSize(type) * count;\n}\n}\n"
    ),
    CHECKS: "#define ORT_ENFORCE(condition) FailWithTraceAndMessage(condition)\n",
    "core/common/fail.cc": "void FailWithTraceAndMessage(bool condition) {\n  AbortTheWholeProcess(condition);\n}\n",
}
EXTRA = (
    Patch(
        name="sizes by number",
        file=SIZES,
        units=f"*/{SIZES}",
        must_find=(re.compile(r"ElementSize\(int type\) \{\n  return LookUpByName\("),),
        gives="speed",
    ),
    Patch(
        name="what fails",
        file="core/common/fail.cc",
        must_find=(re.compile("AbortTheWholeProcess"),),
        gives="size",
        group="checks",
    ),
    Patch(name="made", file="onnx/made.pb.cc", gives="size"),
)
CHECKS_PATCH = Patch(
    name="lean checks",
    file=CHECKS,
    must_find=(re.compile(r"#define ORT_ENFORCE\("),),
    rewrite=lambda text, _: f"{text}// lean\n",
    gives="size",
    group="checks",
)
SOURCES = """\
version = "0.1"
[parts.onnxruntime]
version = "0.1"
license = "MIT"
upstream = "https://example.org"
skip = ["onnxruntime/test"]
[[parts.onnxruntime.archives]]
file = "onnxruntime-0.1.tar"
sha256 = "00"
[parts.re2]
version = "1"
license = "MIT"
upstream = "https://example.org"
[[parts.re2.archives]]
file = "re2.tar"
sha256 = "01"
[tools.protoc]
version = "1"
arch = "x86_64"
program = "protoc"
libraries = ""
packages = []
"""
DEPS = "#Name;Url;SHA1\nre2;https://example.org/re2-1.zip;aa\njson;https://example.org/json-1.zip;bb\n"


def small_release(data: Path) -> Release:
    """The release 0.1."""
    made = toy_release(data, (*PATCHES, *EXTRA))
    (data / "sources.toml").write_text(SOURCES)
    units = [f"{name.partition('/')[0]}/onnxruntime/onnxruntime/{name.partition('/')[2]}" for name in UNITS]
    units += [f"onnxruntime_framework/onnxruntime/onnxruntime/{SIZES}"]
    nothing = Symbols(defines=frozenset(), weak=frozenset(), needs=frozenset())
    (data / "symbols-minimal.json.zst").write_bytes(dump_index(dict.fromkeys(units, nothing)))
    return replace(made, overlay=(CHECKS_PATCH,))


def write_tree(folder: Path, version: str) -> Tree:
    """The tree, as one release or another has it; nothing else differs."""
    own = {name.partition("/")[2]: text for name, text in UNITS.items()}
    for name, text in {**FILES, **own, **TEXTS}.items():
        _write(folder / "onnxruntime" / name, text)
    _write(folder / VERSION_FILE, f"{version}\n")
    _write(folder / HEADER, f"#define ORT_API_VERSION {version.split('.')[1]}\n")
    _write(folder / "onnxruntime/core/session/onnxruntime_c_api.cc", "// C API\n")
    _write(folder / "onnxruntime/test/some_test.cc", f"{TEXTS[SIZES]}\n// a test\n")
    _write(folder / "onnxruntime/contrib_ops/cpu/contrib.cc", "// contrib\n")
    _write(folder / "cmake/CMakeLists.txt", "project(toy)\n")
    _write(folder / "cmake/deps.txt", DEPS)
    _write(folder / "symbols.txt", "ToyRun\n")
    return Tree(folder=folder, skip=("onnxruntime/test",))


def move(tree: Path, text: str, file: str, other: str) -> None:
    """A text from one file into another, which may be new."""
    source, target = tree / "onnxruntime" / file, tree / "onnxruntime" / other
    assert text in source.read_text()
    source.write_text(source.read_text().replace(text, ""))
    _write(target, (target.read_text() if target.exists() else "") + text)


def rename(tree: Path, before: str, now: str) -> None:
    """A word, wherever it is."""
    for path in tree.rglob("*"):
        if path.is_file() and before in path.read_text():
            path.write_text(path.read_text().replace(before, now))


def remove(tree: Path, name: str) -> None:
    path = tree / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
