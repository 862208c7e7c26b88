"""The page that lies in a drafted room: what was found, and what to do, step by step."""

from collections.abc import Iterable, Iterator, Sequence

from bin.draft_release.places import Place
from bin.draft_release.steps import Step, holders, loses, steps
from bin.draft_release.survey import Survey

_MOST = 40
"""More lines of a list than this are counted."""


def upgrade_page(survey: Survey, first_build: Sequence[str]) -> str:
    """``UPGRADE.md``; ``first_build``: what it came to, line by line."""
    lines = [
        f"# ONNX Runtime {survey.version}, drafted like {survey.like}",
        "",
        "`room.toml` says which patches are used, `data/` what is compiled, and how. Build with it:",
        "`edgepack runtime lib --release FOLDER -m MODEL`, where FOLDER is this one.",
        "",
        "## First build",
        "",
        *first_build,
        "",
        "## To do",
        "",
        *_numbered(steps(survey)),
        "## Patches",
        "",
        "| patch | without it | state | file |",
        "|---|---|---|---|",
        *(_row(place, survey) for place in survey.places),
        "",
        *_kernels(survey),
        *_files(survey),
        *_parts(survey),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _numbered(found: Sequence[Step]) -> Iterator[str]:
    if not found:
        yield from ("Nothing: every patch fits, and so do all files.", "")
    for number, step in enumerate(found, 1):
        yield f"{number}. {step.title}"
        yield from (f"   - {detail}" for detail in _cut(step.details))
        yield ""


def _row(place: Place, survey: Survey) -> str:
    file = place.file if place.now in ("", place.file) else f"{place.file} → {place.now}"
    used = "" if place.patch not in survey.left_out or not place.fits else ", left out with its group"
    return f"| {place.patch} | {loses(place)} | {place.state}{used} | `{file}` |"


def _kernels(survey: Survey) -> Iterator[str]:
    kernels = survey.kernels
    yield from (
        "## Kernels",
        "",
        f"{kernels.known} registered by {survey.like}, {kernels.now} by {survey.version}.",
        "",
    )
    if kernels.not_read:
        yield from (f"Not read, because they were not found: {', '.join(kernels.not_read)}.", "")
    for title, rows in (("New operators", kernels.new), ("Gone", kernels.gone), ("Changed", kernels.changed)):
        yield from _listed(title, rows)


def _files(survey: Survey) -> Iterator[str]:
    files = survey.files
    yield from ("## Sources", "")
    yield f"Of {files.plan} files that {survey.like} is compiled from, {files.same} are the same, {len(files.gone)} are gone."
    yield ""
    yield from _listed("Gone", [f"{gone.file}: {holders(gone.holders)}" for gone in files.gone])
    yield from _listed("New beside them", files.new)


def _parts(survey: Survey) -> Iterator[str]:
    rows = [f"{part.name}: {part.before or 'none'} → {part.now or 'none'}" for part in survey.parts]
    if rows:
        yield from ("## Libraries", "", *(f"- {row}" for row in rows), "")


def _listed(title: str, rows: Sequence[str]) -> Iterator[str]:
    if rows:
        yield from (f"{title}:", "", *(f"- {row}" for row in _cut(rows)), "")


def _cut(rows: Sequence[str]) -> Iterable[str]:
    if len(rows) <= _MOST:
        return rows
    return (*rows[:_MOST], f"and {len(rows) - _MOST} more (`--json` lists all)")
