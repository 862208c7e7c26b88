"""Code in the pages: commands are those that there are, and every block is of its language."""

import ast
import json
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import yaml
from tests.support.golden import ROOT
from tests.support.pages import (
    PAGES,
    blocks,
    command_lines,
    mentions,
    options_of,
    parse,
    program_lines,
    words_of,
)
from tests.support.reference import bash_completion

from edgepack.errors import EdgepackError
from edgepack.plugins.host import PluginHost, load_plugins
from edgepack.runner.native.options import commands, help_of

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def python(text: str) -> None:
    compile(text, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


READERS: dict[str, Callable[[str], object]] = {
    "python": python,
    "py": python,
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
}
TOLD_APART = {
    "sh",
    "bash",
    "c",
    "cpp",
    "csharp",
    "swift",
    "go",
    "rust",
    "java",
    "kotlin",
    "js",
    "ts",
    "diff",
    "text",
    "console",
    "html",
    "ini",
    "dockerfile",
    "sql",
    "",
}
"""Languages whose blocks are looked at elsewhere, or not."""
HEADER = ROOT / "src/edgepack/runner/native/csrc/libembed"
PARSE = """
import { readFileSync } from "node:fs";
import { SourceTextModule } from "node:vm";
for (const text of JSON.parse(readFileSync(0, "utf8"))) new SourceTextModule(text);
"""
"""Reads a JSON list of modules, and fails at the first that is none."""


@pytest.fixture(scope="module")
def host() -> PluginHost:
    return load_plugins()


@each_page
def test_every_command_is_one_that_the_command_line_takes(page: Path, host: PluginHost) -> None:
    for line in command_lines(page):
        try:
            parse(words_of(line), host=host)
        except Exception as error:
            pytest.fail(f"{line}: {error}")


@each_page
def test_every_command_that_is_mentioned_has_its_options(page: Path) -> None:
    for line in mentions(page):
        if line != "edgepack NAME":
            asked, known = options_of(words_of(line))
            assert asked <= known, line


@each_page
def test_every_option_of_the_program_is_one_that_it_has(page: Path) -> None:
    for line in program_lines(page):
        words = words_of(line, "embed")
        command = words[0] if words and words[0] in commands() else "embed"
        known = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", help_of(command)))
        said = {
            word.partition("=")[0] for word in words[: [*words, "--"].index("--")] if word.startswith("-")
        }
        assert said <= known, line


@each_page
def test_every_block_is_of_its_language(page: Path) -> None:
    for block in blocks(page):
        assert block.language in {*READERS, *TOLD_APART}, f"line {block.line}: {block.language}"
        if reads := READERS.get(block.language):
            try:
                reads(block.text)
            except Exception as error:
                pytest.fail(f"line {block.line}: {error}")


@each_page
def test_no_page_holds_two_versions(page: Path) -> None:
    assert re.findall(r"^(?:<{7}|={7}|>{7})(?: .*)?$", page.read_text("utf-8"), re.MULTILINE) == []


@pytest.mark.tools("bash")
def test_shell_is_shell() -> None:
    found = [
        (f"{page} line {each.line}", each.text)
        for page in PAGES
        for each in blocks(page)
        if each.language == "sh"
    ]
    for place, text in [*found, ("completion", bash_completion())]:
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{place}: {done.stderr}"
    assert found


@pytest.mark.tools("gcc")
def test_c_compiles() -> None:
    found = [block for page in PAGES for block in blocks(page) if block.language == "c"]
    command = ["gcc", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{HEADER}", "-xc", "-"]
    for block in found:
        done = subprocess.run(command, input=block.text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert found


@pytest.mark.tools("node")
def test_javascript_is_javascript() -> None:
    texts = [block.text for page in PAGES for block in blocks(page) if block.language == "js"]
    command = ["node", "--no-warnings", "--experimental-vm-modules", "--input-type=module", "-e", PARSE]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert texts


def test_a_command_that_is_not_there_is_found(host: PluginHost) -> None:
    for wrong in (
        "edgepack bundel",
        "edgepack bundle --recpie int8",
        "edgepack bundle --gate loud",
        "edgepack bundle -t linux-x86-min --capabilities 8.6",
        "edgepack bundle -t linux-x86-min --set model.recipes=int8",
        "edgepack bundle -t linux-x86-min --set librray=true",
        "edgepack verify",
        "edgepack runtime fits one",
    ):
        with pytest.raises((click.UsageError, EdgepackError)):
            parse(words_of(wrong), host=host)
    parse(
        words_of("A=1 edgepack bundle ./my-model -t linux-x86-min --set library=true | cat  # x"), host=host
    )
