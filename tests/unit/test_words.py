"""Help texts and pages use the terms of docs/glossary.md, and none that they replaced."""

import re
from pathlib import Path

import pytest
from tests.support.golden import ROOT
from tests.support.house import MODULES
from tests.support.pages import PAGES
from tests.support.reference import commands

from edgepack.runner.native.options import commands as program_commands
from edgepack.runner.native.options import help_of

SAY_INSTEAD = {
    r"\b(text|texts|object|vector|row|one|scale|bit|number|entry|line) a (line|text|token|tensor|channel|number|row)\b": "per",
    r"\b(texts|sentences|requests|tokens) a second\b": "/s, per second",
    r"\ba GB\b": "per GB",
    r"\bask(s|ed)? for (at least|every|several)\b|\d is asked for\b": "requires, is required",
    r"\bma(k|d)es? (a |the |it )?(model )?small\b(?! [a-z]+s\b)": "quantize",
    r"\balone and among \d+\b": "batch-independent",
    r"\bbrought (back )?to length 1\b": "normalized",
    r"\bhalf-made\b": "no partial output",
    r"\b(is|are) (a )?faults? of (edgepack|the program)\b": "bug in",
    r"\bout there\b": "existing runtime",
    r"\b(kinds? of|lower|lesser) processors?\b.*\bpass for\b": "CPU level",
    r"\bmakes? no sense\b": "invalid",
    r"\b(lie|lies) beside\b": "is beside",
    r"^#+ Ends$": "Exit codes",
}
"""What was said before, and the term that stands in its place."""
VERBS = {
    "Build", "Check", "Compare", "Convert", "Copy", "Create", "Download", "Empty", "Export", "Inspect", "Join",
    "List", "Make",
    "Print", "Prune", "Pull", "Push", "Quantize", "Run", "Serve", "Set", "Show", "Sign", "Turn", "Update", "Verify", "Write",
}  # fmt: skip
LONGEST = 70
"""Letters of a summary: it fits beside a command's name."""


def outdated(text: str) -> list[str]:
    return [
        f"{found[0]!r}, say {term!r}"
        for words, term in SAY_INSTEAD.items()
        for found in re.finditer(words, text, re.MULTILINE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_the_terms_of_the_glossary(page: Path) -> None:
    assert outdated(page.read_text(encoding="utf-8")) == []


def test_the_help_of_the_program_uses_the_terms_of_the_glossary() -> None:
    for command in program_commands():
        assert outdated(help_of(command)) == []


def test_summaries_of_commands_are_imperative_and_fit_on_a_line() -> None:
    for name, context in commands().items():
        summary = context.command.get_short_help_str(limit=1000)
        assert re.split(r"\W", summary)[0] in VERBS, f"{name}: {summary}"
        assert len(summary) <= LONGEST or " " not in name, f"{name}: {summary}"


def test_every_option_has_a_help_text_of_one_form() -> None:
    """A capital letter, and a period at its end, before what click adds."""
    wrong = [
        f"{name} {parameter.opts[0]}: {help}"
        for name, context in commands().items()
        for parameter in context.command.params
        if (help := getattr(parameter, "help", None)) is not None
        and not re.fullmatch(r"([A-Z.]|(fixed|minimal|out):).*[.\])]", help, re.DOTALL)
    ]
    assert wrong == []


def test_the_glossary_is_of_words_that_are_used() -> None:
    glossary = ROOT / "docs/glossary.md"
    texts = " ".join(page.read_text(encoding="utf-8").lower() for page in PAGES if page != glossary)
    terms = re.findall(r"^\| \*\*(.+?)\*\*", glossary.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(terms) > 30
    unused = [word for term in terms for word in term.split(", ") if word.lower() not in texts]
    assert unused == []


RENAMED = {
    "again": "rebuild_check, measured_again",
    "aside": "external_weights",
    "asked": "the thing that is asked for",
    "chosen": "enabled",
    "finished": "remote_results",
    "made": "build_info",
    "made_here": "trusted_bundles",
    "made_small": "quantize_record",
    "orders": "jobs",
    "plain": "normalize_attention",
    "remembered": "state_file",
    "room": "disk_space, release_folder",
    "settle": "postlink",
    "typed": "toml_schema",
    "usual": "normalize_operators",
    "words": "terminal_text",
}
"""What modules were called before, which told nobody what is in them, and what of the field's words they are called now."""


def test_modules_have_names_that_say_what_is_in_them() -> None:
    stems = {file.stem: name for name, file in MODULES.items()}
    assert {stems[old]: f"call it {new}" for old, new in RENAMED.items() if old in stems} == {}
