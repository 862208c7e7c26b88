"""Checks of sources and architectures, on models that the command line names."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgepack.errors import EdgepackError, MissingToolError
from edgepack.records.model import RemoteModel
from edgepack.testing.check import Broken, NotSeen, check
from edgepack.testing.hindered import NO_NETWORK
from edgepack.testing.specs import TEXTS, SpecSubject

SOURCES = "docs/plugins.md#a-source-in-an-hour"
ARCHITECTURES = "docs/plugins.md#an-architecture-in-an-afternoon"
CLOSE = 1e-4
"""Between numbers of a model's vectors and the original's."""


def _addresses(subject: SpecSubject) -> list[str]:
    """Those of the source's scheme; ``NotSeen`` where none was named."""
    name = subject.spec.name
    if found := [each for each in subject.kit.models if each.lower().startswith(f"{name}:")]:
        return found
    raise NotSeen(f"name a model for it to find: --edgepack-model {name}://…")


@check(
    "finds-the-same-twice",
    "What a source finds is pinned; asked again for it, or for its origin, it finds the same.",
    section=SOURCES,
)
def finds_the_same_twice(subject: SpecSubject) -> None:
    from edgepack.models.find.remote import find_remote

    for address in _addresses(subject):
        found: list[RemoteModel] = []
        for turn, asked in enumerate((address, address, "")):
            store = subject.kit.folder / f"{subject.label}-found-{turn}"
            remote = find_remote(
                asked or found[0].origin, context=subject.kit.context(store=store, offline=False)
            )
            assert remote is not None, "an address of its scheme"
            found.append(remote)
        first = found[0]
        for other, again in zip(found[1:], ("again", f"for {first.origin}"), strict=True):
            for field in ("name", "origin", "pins", "files"):
                ours, theirs = getattr(first, field), getattr(other, field)
                if ours != theirs:
                    raise Broken(
                        f"{address}: asked {again}, its {field}: {theirs!r}, before: {ours!r}",
                        do="pin what lies there: a revision or digests, and an origin that names them",
                    )


@check(
    "works-offline",
    "A model that was fetched once is there offline, by its address and by its origin.",
    section=SOURCES,
)
def works_offline(subject: SpecSubject) -> None:
    from edgepack.models.find.source import ingest

    for number, address in enumerate(_addresses(subject)):
        store = subject.kit.folder / f"{subject.label}-offline-{number}"
        source = ingest(address, context=subject.kit.context(store=store, offline=False))
        with pytest.MonkeyPatch.context() as environment:
            for name, value in NO_NETWORK.items():
                environment.setenv(name, value)
            for again in dict.fromkeys((address, source.origin)):
                try:
                    found = ingest(again, context=subject.kit.context(store=store))
                except EdgepackError as error:
                    raise Broken(f"{again}: {error.message}", do=UNASKED) from error
                if found != source:
                    raise Broken(f"{again} is another model offline", do=UNASKED)


UNASKED = "ask nobody in `make`, name each file in `files`, and give one pin to one content"


def _folders(subject: SpecSubject) -> Iterator[Path]:
    """Models whose config.json names the architecture; ``NotSeen`` where there is none."""
    found = False
    for folder in map(Path, subject.kit.models):
        config = folder / "config.json"
        if config.is_file() and json.loads(config.read_bytes()).get("model_type") == subject.spec.name:
            found = True
            yield folder
    if not found:
        raise NotSeen(f"name a folder with a model of type {subject.spec.name}: --edgepack-model FOLDER")


@check(
    "is-the-original",
    "The model's vectors are those of sentence-transformers, each number to within 0.0001.",
    section=ARCHITECTURES,
)
def is_the_original(subject: SpecSubject) -> None:
    from edgepack.models.judge import difference_from_judge

    for folder in _folders(subject):
        context = subject.kit.context(store=subject.kit.folder / f"{subject.label}-judged")
        try:
            difference = difference_from_judge(folder, TEXTS, context=context)
        except MissingToolError as error:
            raise NotSeen(error.message) from error
        if not difference <= CLOSE:  # or not a number
            raise Broken(
                f"{folder.name}: a number differs by {difference:.2g} from sentence-transformers'",
                do="compare with the original layer by layer: where its graph leaves ours, a part is another",
            )


BY_AXIS = {"source": (finds_the_same_twice, works_offline), "architecture": (is_the_original,)}
