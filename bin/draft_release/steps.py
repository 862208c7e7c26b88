"""What is to be mended in a drafted room, step by step, the most pressing first."""

from collections.abc import Iterator
from dataclasses import dataclass

from bin.draft_release.likeness import Share
from bin.draft_release.places import Missing, Place
from bin.draft_release.survey import Survey

_LOSES = {
    "": "no runtime can be made without it",
    "size": "runtimes are larger without it",
    "speed": "runtimes are slower without it",
}


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something that a person does."""

    title: str
    details: tuple[str, ...] = ()


def steps(survey: Survey) -> tuple[Step, ...]:
    """All of them."""
    return (
        *_needed_first(survey),
        *_files(survey),
        *_parts(survey),
        *_optional_patches(survey),
    )


def loses(place: Place) -> str:
    """What runtimes lose without a patch, in words."""
    return _LOSES[place.gives]


def _needed_first(survey: Survey) -> Iterator[Step]:
    for place in survey.places:
        if not place.gives and place.patch in survey.left_out:
            yield Step(title=f"Mend the patch {place.patch!r}: {loses(place)}", details=tuple(_why(place)))
    if survey.kernels.unread:
        yield Step(
            title=f"Read {survey.kernels.unread} registrations of kernels, whose rows have a form that is not known",
            details=(
                "The room's `registrations.py` reads the rows; those that it cannot read stay in every runtime.",
            ),
        )


def _files(survey: Survey) -> Iterator[Step]:
    if survey.places_lost:
        yield Step(title="Find what the room names and is not there", details=survey.places_lost)
    if survey.files.rules:
        yield Step(
            title="Mend patterns in data/build.toml that match nothing any more",
            details=tuple(f"`{rule}`" for rule in survey.files.rules),
        )


def _parts(survey: Survey) -> Iterator[Step]:
    changed = [part for part in survey.parts if part.now]
    if changed:
        yield Step(
            title="Pin the libraries that upstream takes other versions of, in data/sources.toml",
            details=tuple(
                f"{part.name}: {part.now}" + (f" (before: {part.before})" if part.before else " (new)")
                for part in changed
            ),
        )


def _optional_patches(survey: Survey) -> Iterator[Step]:
    for place in survey.places:
        if place.state == "renamed":
            words = ", ".join(f"{word} is now {now}" for word, now in place.renamed.items())
            yield Step(
                title=f"See whether it is so for the patch {place.patch!r}: {words}",
                details=tuple(_why(place)),
            )
        if place.gives and place.patch in survey.left_out:
            yield Step(
                title=f"Mend the patch {place.patch!r}, or do without: {loses(place)}",
                details=tuple(_why(place)),
            )
    ready = [place.patch for place in survey.places if place.gives and place.patch not in survey.left_out]
    if ready:
        yield Step(
            title="Turn on the patches that fit, one after another: `use = true` in room.toml",
            details=tuple(ready),
        )


def _why(place: Place) -> Iterator[str]:
    if place.fits and place.state != "renamed":
        yield f"it fits, but serves only with the others of its group, {place.group}"
        return
    if place.state == "gone":
        yield f"{place.file} is gone; {holders(place.holders)}"
    for missing in place.missing:
        yield from _looked_for(place, missing)


def _looked_for(place: Place, missing: Missing) -> Iterator[str]:
    yield f"{place.file} has no `{missing.pattern}`; in the known release that found, in line {missing.line}, `{missing.was}`"
    if missing.elsewhere:
        yield f"the same words are now in {', '.join(missing.elsewhere)}"
    for near in missing.nearest:
        yield f"near it ({near.likeness:.0%}): {near.file}:{near.line} `{near.text}`"


def holders(shares: tuple[Share, ...]) -> str:
    """Where the lines of a file are now, in words."""
    if not shares:
        return "no new or changed file holds its lines"
    named = " and ".join(f"{share.file} ({share.share:.0%} of its lines)" for share in shares)
    return f"now in {named}"
