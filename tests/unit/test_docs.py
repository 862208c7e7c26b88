"""The reference pages say what the code says, and leave nothing out."""

import dataclasses
import inspect
import json
import os
import pydoc
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.support.golden import ROOT, matches_block, matches_golden
from tests.support.house import MODULES, imports_of, room_of
from tests.support.interface import INTERFACES, api_reference, interface_page, interface_snapshot
from tests.support.reference import commands, exit_codes
from tests.support.schema_tables import undescribed
from tests.support.site import MARK, PARTS, RECORDS, with_parts

import edgepack
from edgepack.doctor.verdict import VERDICTS
from edgepack.plugins.hookspecs import EdgepackSpecs
from edgepack.plugins.host import load_plugins
from edgepack.plugins.spec import Spec
from edgepack.project.file import Wanted
from edgepack.runner.native.options import commands as program_commands
from edgepack.runner.native.options import options_of
from edgepack.targets import KNOWN_KEYS


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next."""
    assert f"\n{heading}" in text, f"no heading {heading}"
    return re.split(r"\n#+ ", text.partition(f"\n{heading}")[2])[0]


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_each_part_that_the_site_writes_has_its_place() -> None:
    marks = [name for file in PAGES for name in MARK.findall(file.read_text(encoding="utf-8"))]
    assert sorted(marks) == sorted(PARTS)


@pytest.mark.parametrize("name", sorted(PARTS))
def test_each_part_that_the_site_writes_is_one_of_a_page(name: str) -> None:
    written = with_parts(f"before\n\n<!-- written: {name} -->\n\nafter\n")
    assert not MARK.search(written)
    assert written.startswith("before\n\n") and written.endswith("\n\nafter\n")
    assert re.search(r"^(#+ |```|\| key \| type \|)", written, re.MULTILINE)


def test_every_command_is_in_the_list_of_its_page_and_every_option_in_the_reference() -> None:
    contexts = commands()
    listed = first_words(page("commands.md").partition("\n## ")[0])
    assert sorted(listed) == sorted(name.split()[1] for name in contexts if name.count(" ") == 1)
    written = PARTS["commands"]()
    for name, context in contexts.items():
        said = section(written, f"## `{name}`")
        assert f"Usage: {name} " in said
        options = [each for each in context.command.params if each.param_type_name == "option"]
        shown = [each.opts[-1] for each in options if not getattr(each, "hidden", False)]
        assert [option for option in shown if option not in said] == [], name


def first_words(text: str) -> list[str]:
    """Of a table, the words in code of the first column."""
    rows = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    return re.findall(r"`([\w-]+)`", " ".join(rows))


def test_every_exit_code_is_in_the_reference(update_golden: bool) -> None:
    matches_block("commands.md", "exit codes", exit_codes(), update=update_golden)


def test_every_verdict_of_doctor_is_in_its_page(update_golden: bool) -> None:
    rows = [f"| `{name}` | {code} | {meaning} |\n" for name, (code, meaning) in VERDICTS.items()]
    block = "| verdict | exit code | |\n|---|---|---|\n" + "".join(rows)
    matches_block("doctor.md", "verdicts", block, update=update_golden)


def test_every_exit_code_of_the_program_is_in_its_page() -> None:
    listed = re.findall(r"^\| (\d) \|", section(page("runner.md"), "## Exit codes"), re.MULTILINE)
    header = (ROOT / "src/edgepack/runner/native/csrc/base/error.h").read_text(encoding="utf-8")
    (codes,) = re.findall(r"enum Code \{([^}]*)\}", header)
    assert listed == ["0", *sorted(re.findall(r"\d", codes))]


READ_BY_OTHERS = {"TMPDIR", "NO_COLOR"}
"""Variables that Python and rich read."""
NOT_FOR_PEOPLE = {
    "_EDGEPACK_COMPLETE",
    "EDGEPACK_COMPLETE",
    "LD_LIBRARY_PATH",
    "PYTHONSAFEPATH",
    "TOKENIZERS_PARALLELISM",
}
"""What the shell's completion sets, and what is only passed on or set for others."""


@pytest.mark.parametrize("command", program_commands())
def test_every_option_of_the_program_is_in_its_page(command: str) -> None:
    written = PARTS["embed" if command == "embed" else f"embed {command}"]()
    shown = [each for each in options_of(command) if not each.hidden]
    assert shown
    assert [name for each in shown for name in each.names if name not in written] == []


def test_every_key_of_a_project_file_is_in_its_page() -> None:
    text = page("project.md").partition("\n## ")[0]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", text, re.MULTILINE)
    assert set(re.findall(r"\w+", " ".join(rows))) == {each.name for each in dataclasses.fields(Wanted)}


def test_every_variable_of_the_environment_is_documented() -> None:
    rows = re.findall(r"^\| (`.*?`) \|", page("reference/environment.md"), re.MULTILINE)
    assert set(re.findall(r"\w+", " ".join(rows))) == variables_read() - NOT_FOR_PEOPLE | READ_BY_OTHERS


def variables_read() -> set[str]:
    """What the code asks the environment for, and whatever is called as edgepack's own variables are."""
    asked = r"""environ(?:\.get\(|\[)([\w.]+|"\w+")(?![^\n=]*\] = )|getenv\("((?:EMBED|XDG)_\w+)"\)"""
    texts = [
        file.read_text("utf-8")
        for folder in ("src", "plugins/edgepack_*")
        for kind in ("*.py", "*.cc")
        for top in ROOT.glob(folder)
        for file in top.rglob(kind)
    ]
    words = {one or other for text in texts for one, other in re.findall(asked, text)}
    constants = dict(re.findall(r'^([A-Z_]+) = "([A-Z][A-Z_]+)"', "\n".join(texts), re.MULTILINE))
    named = {constants.get(word.rpartition(".")[2], word.strip('"')) for word in words}
    own = {
        name for text in texts for name in re.findall(r"\bEDGEPACK_[A-Z_]*[A-Z]|\bCUDA_(?:HOME|PATH)\b", text)
    }
    return {name for name in named if name and name.isupper()} | own


def test_the_page_of_names_has_every_one_with_what_it_is() -> None:
    text = interface_page()
    for interface in INTERFACES:
        for name in import_module(interface).__all__:
            assert f"\n### `{name}`\n\n```text\n" in text


@pytest.mark.parametrize("interface", INTERFACES)
def test_help_lists_every_name_for_plugins(interface: str) -> None:
    module = import_module(interface)
    assert dir(module) == sorted(module.__all__)
    text = pydoc.plain(pydoc.render_doc(module))
    functions = [name for name in module.__all__ if inspect.isfunction(getattr(module, name))]
    assert [name for name in functions if f"\n    {name}(" not in text] == []


def test_what_plugins_rely_on_changes_by_intent_only(update_golden: bool) -> None:
    """After a change that breaks plugins of an axis, its newest interface is another and CHANGELOG.md says so."""
    matches_golden("api.txt", interface_snapshot(), update=update_golden)


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


def test_every_field_of_a_spec_is_documented() -> None:
    rows = re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \|", section(page("plugins.md"), "## A builder"), re.MULTILINE
    )
    assert re.findall(r"\w+", " ".join(rows)) == [each.name for each in dataclasses.fields(Spec)]


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
        for name in re.findall(r'### `builder = "([\w-]+)"`', text)
    }
    known = {name: set(each.spec.options()) for name, each in load_plugins().builders.items()}
    assert documented == known


@pytest.mark.parametrize("name", ["manifest", "report", "devices"])
def test_every_key_of_a_schema_is_described(name: str) -> None:
    schema = json.loads((ROOT / f"docs/schemas/{name}.json").read_text("utf-8"))
    assert undescribed(schema) == [], "keys without a description"
    keys = set(re.findall(r"^\| `(?:[\w.]+\.)?(\w+)` \|", PARTS[name](), re.MULTILINE))
    assert schema["properties"].keys() <= keys


def test_what_python_may_import_is_in_its_page() -> None:
    text = page("reference/python.md")
    names: list[str] = vars(edgepack)["__all__"]
    functions = [name for name in names if name[0].islower()]
    assert [name for name in functions if f"`{name}`" not in text] == []
    returned = set(re.findall(r"-> (?:list\[)?([A-Z]\w+)", api_reference(edgepack))) - {"NDArray", "Path"}
    assert returned <= {*names, *(each.__name__ for each in RECORDS)}


@pytest.mark.parametrize("file", PAGES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    for path, _, heading in (link.partition("#") for link in links):
        target = file.parent / path if path else file
        assert target.exists(), f"{file.name} leads to {path}"
        if heading:
            assert heading in anchors(target.read_text(encoding="utf-8")), f"{path} has no heading #{heading}"


def anchors(text: str) -> set[str]:
    """What GitHub calls a page's headings."""
    headings = re.findall(r"^#+ (.*)", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The docs site; a page beside the navigation, a link or an anchor that is not there ends the build."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.tools("python")
def test_the_site_asks_no_other_host_for_anything(site: Path) -> None:
    # The component "source" asks GitHub for the number of stars.
    asked = re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//|<link\b(?=[^>]*(?:stylesheet|preconnect|icon))[^>]*href=["']?(?:https?:)?//|data-md-component="source"|@import|url\((?:https?:)?//"""
    )
    found = {
        str(file.relative_to(site)): match[0]
        for file in site.rglob("*")
        if file.suffix in (".html", ".css") and (match := asked.search(file.read_text("utf-8")))
    }
    assert len(list(site.rglob("*.html"))) >= len(list((ROOT / "docs").rglob("*.md")))
    assert found == {}


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_path_that_a_page_names_exists(name: str) -> None:
    named = re.findall(
        r"`([\w./-]+/|[\w./-]*\w\.(?:py|toml|md|cc|txt|json))`", (ROOT / name).read_text("utf-8")
    )
    missing = [
        path for path in named if not (ROOT / path).exists() and not (ROOT / "src/edgepack" / path).exists()
    ]
    assert named
    assert missing == []


def drawn_rooms() -> dict[str, tuple[int, str, str]]:
    """Of the picture in architecture.md: each room with its line's number from the top, its floor, and those it stands on."""
    picture = page("architecture.md").partition("```text\n")[2].partition("```")[0]
    lines = [
        re.fullmatch(r"(\d)  (.+?)  +\S.*?(?:  +([\d ]+))?", line) for line in picture.splitlines() if line
    ]
    return {
        f"edgepack.{name.replace('/', '.')}": (number, line[1], line[3] or "")
        for number, line in enumerate(lines)
        if line is not None
        for name in line[2].split()
    }


def test_the_picture_of_the_rooms_is_that_of_the_imports() -> None:
    """Each folder and each folder in one is drawn; each line imports lines below it, and stands on the floors it says."""
    drawn = drawn_rooms()
    ours = [name for name in MODULES if name.startswith("edgepack.")]
    rooms = {".".join(room_of(name).split(".")[:3]) for name in ours} - {"edgepack"}
    assert drawn.keys() == rooms
    stands_on: dict[str, set[str]] = {room: set() for room in drawn}
    for name in ours:
        room = ".".join(room_of(name).split(".")[:3])
        for other in imports_of(name) - {"edgepack"}:
            below = ".".join(room_of(other).split(".")[:3])
            assert drawn[below][0] >= drawn[room][0], f"{name} imports {other}, which is drawn above it"
            if drawn[below][1] != drawn[room][1]:
                stands_on[room].add(drawn[below][1])
    for room, floors in stands_on.items():
        together = set().union(*(stands_on[each] for each in drawn if drawn[each][0] == drawn[room][0]))
        assert sorted(together) == drawn[room][2].split(), f"{room} stands on {floors}"


def test_each_decision_has_a_number_a_date_and_a_row() -> None:
    folder = ROOT / "docs/decisions"
    rows, found = [], []
    for title, name, listed in re.findall(
        r"^## \[(.+)\]\((.+)\)\n((?:(?!## ).*\n?)*)", (folder / "index.md").read_text(), re.MULTILINE
    ):
        text = (folder / name).read_text()
        assert text.startswith(f"# Decisions: {title}\n")
        entries = re.findall(
            r"^## (\d+) · (.+)\n\*\d{4}-\d\d-\d\d(?:, replaced by \[(\d+)\]\((.+)\)\.)?\*$",
            text,
            re.MULTILINE,
        )
        assert len(entries) == len(re.findall(r"^## ", text, re.MULTILINE)), f"{name}: a title without a date"
        rows += re.findall(r"^- (.+)$", listed, re.MULTILINE)
        found += [(name, *entry) for entry in entries]
    assert {path.name for path in folder.glob("*.md")} == {name for name, *_ in found} | {"index.md"}
    assert rows == [
        f"{number} · {title}" + (f" (replaced by {other})" if other else "")
        for _, number, title, other, _ in found
    ]
    pages = {int(number): name for name, number, *_ in found}
    assert sorted(pages) == list(range(1, len(found) + 1))
    assert all(pages[int(other)] == page for *_, other, page in found if other)
