"""The reference pages say what the code says, and leave nothing out."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import pytest
from tests.support.golden import ROOT, matches_block, matches_golden
from tests.support.reference import api_names, api_snapshot, command_help, exit_codes

from edgepack.options import Renamed
from edgepack.plugins.hookspecs import EdgepackSpecs
from edgepack.plugins.host import load_plugins
from edgepack.targets import KNOWN_KEYS

INTERFACES = ["edgepack.api", "edgepack.api.kit"]
"""What plugins may import."""


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next."""
    assert f"\n{heading}" in text, f"no heading {heading}"
    return re.split(r"\n#+ ", text.partition(f"\n{heading}")[2])[0]


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def test_every_command_and_option_is_in_the_reference(update_golden: bool) -> None:
    matches_block("commands.md", "commands", command_help(), update=update_golden)


def test_every_exit_code_is_in_the_reference(update_golden: bool) -> None:
    matches_block("commands.md", "exit codes", exit_codes(), update=update_golden)


@pytest.mark.parametrize("interface", INTERFACES)
def test_every_name_for_plugins_is_in_the_reference(interface: str, update_golden: bool) -> None:
    matches_block("plugins.md", interface, api_names(import_module(interface)), update=update_golden)


@pytest.mark.parametrize("interface", INTERFACES)
def test_what_plugins_rely_on_changes_by_intent_only(interface: str, update_golden: bool) -> None:
    """After a change that breaks plugins, ``API_VERSION`` is another and CHANGELOG.md says so."""
    name = interface.removeprefix("edgepack.") + ".txt"
    matches_golden(name, api_snapshot(import_module(interface)), update=update_golden)


def test_every_hook_is_documented_with_its_arguments() -> None:
    rows = {
        cells[1].strip(" `"): re.findall(r"`(\w+)`", cells[2])
        for line in section(page("plugins.md"), "## Hooks").splitlines()
        if len(cells := line.split("|")) > 3
    }
    hooks = {
        name: [each for each in inspect.signature(hook).parameters if each != "self"]
        for name, hook in vars(EdgepackSpecs).items()
        if name.startswith("edgepack_")
    }
    assert {name: rows.get(name) for name in hooks} == hooks


@pytest.mark.parametrize("table", KNOWN_KEYS)
def test_every_key_of_a_target_file_is_documented(table: str) -> None:
    text = page("targets.md")
    listed = first_column(section(text, f"## `[{table}]`")) if table else first_column(text.split("\n## ")[0])
    sections = {key for key in KNOWN_KEYS[""] if f"\n## `[{key}]`" in text} if not table else set()
    assert {*listed, *sections} == set(KNOWN_KEYS[table])


def test_every_option_of_a_builder_is_documented() -> None:
    text = page("targets.md")
    documented = {
        name: set(first_column(section(text, f'### `builder = "{name}"`')))
        for name in re.findall(r'### `builder = "(\w+)"`', text)
    }
    known = {
        name: {option for option, default in each.spec.options().items() if not isinstance(default, Renamed)}
        for name, each in load_plugins().builders.items()
    }
    assert documented == known
