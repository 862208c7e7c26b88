"""What plugins may import: few names, each said where it lives and looked up when it is asked for."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.support.interface import INTERFACES

from edgepack.api import former

pytestmark = pytest.mark.tools("python")

MOST = 45
MOST_OF_THE_KIT = 60


def names_of(module: str) -> list[str]:
    names: list[str] = import_module(module).__all__
    return names


@pytest.mark.parametrize("module", INTERFACES)
def test_type_checkers_see_what_there_is(module: str) -> None:
    stub = ast.parse(Path(str(import_module(module).__file__)).with_suffix(".pyi").read_text())
    seen = []
    for node in stub.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.name == alias.asname, "said again for who imports it from here"
            assert getattr(import_module(module), alias.name) is getattr(
                import_module(str(node.module)), alias.name
            )
            seen.append(alias.name)
    assert sorted(seen) == names_of(module)


@pytest.mark.parametrize("module", INTERFACES)
def test_every_name_is_there_and_its_functions_say_what_they_do(module: str) -> None:
    for name in names_of(module):
        found = getattr(import_module(module), name)
        if inspect.isfunction(found) or inspect.isclass(found):
            assert found.__doc__, name


def test_what_a_builder_needs_is_little() -> None:
    assert len(names_of("edgepack.api")) <= MOST
    assert len(names_of("edgepack.api.kit")) <= MOST_OF_THE_KIT
    names = [name for module in INTERFACES for name in names_of(module)]
    assert len(names) == len(set(names)), "each is in one of them"


@pytest.mark.parametrize("module", INTERFACES)
def test_an_unknown_name_is_an_import_error(module: str) -> None:
    with pytest.raises(ImportError, match="cannot import name 'make_coffee'"):
        exec(f"from {module} import make_coffee")


@pytest.mark.parametrize("module", INTERFACES)
def test_importing_it_imports_nothing_else(module: str) -> None:
    code = (
        f"import sys, {module}\nprint(sorted(name for name in sys.modules if name.startswith('edgepack.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = {"edgepack.api", "edgepack.api.names", module}
    assert set(ast.literal_eval(done.stdout)) == expected


def test_a_name_of_the_interface_before_is_found_with_a_warning() -> None:
    kit = import_module("edgepack.api.kit")
    assert not set(former.HOMES) & set(kit.__all__)
    for name, home in former.HOMES.items():
        with pytest.warns(DeprecationWarning, match=f"{name} is no longer in edgepack.api.kit") as warned:
            assert getattr(kit, name) is getattr(import_module(home), name)
        assert warned[0].filename == __file__
