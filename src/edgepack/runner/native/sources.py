"""The C++ sources of a program: an encoder, the features that it has, and what is generated.

Folders of ``csrc``: ``base``, ``tokenizer``, ``embedder`` and ``features`` are in everything that embeds; ``encoder`` has the interface of what
computes vectors (``encoder.h``) and ONNX Runtime behind it; ``program`` is the command line, ``libembed`` what
is offered as a library. Includes name their folder.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

from edgepack.foundry.units import LANGUAGES
from edgepack.runner.native.options import option_headers

EXPORTS = (
    *("embed_chunks", "embed_close", "embed_dimension", "embed_free_chunks", "embed_free_rows"),
    *(
        "embed_label",
        "embed_open",
        "embed_outputs",
        "embed_scores",
        "embed_similarity",
        "embed_texts",
        "embed_tokens",
    ),
)
"""What embed.h declares."""
HEADERS = (".h", ".hh", ".hpp", ".inc")
"""What is taken of others' folders with headers."""
COMMON = ("base/", "tokenizer/", "embedder/", "features/")
"""Folders that are in everything that embeds, but for what belongs to a feature."""
HOSTED = "base/hosted.h"
"""Says whether a host may start the program."""
PAIRS = ("tokenizer/pair.cc", "embedder/pairs.cc")


@dataclass(frozen=True, kw_only=True)
class Feature:
    """A part that a program or libembed may have. Its sources define descriptors (``features/feature.h``), which register it.

    Places below ``csrc``, or what they begin with.
    """

    both: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    library: tuple[str, ...] = ()


FEATURES = {
    "search": Feature(program=("search/",)),
    "chunks": Feature(
        both=("chunks/chunks.",), program=("chunks/write_chunks.",), library=("libembed/chunks.",)
    ),
    "polite": Feature(program=("polite/",)),
    "serve": Feature(program=("serve/", "chunks/chunks.")),
    "gpu": Feature(program=("gpu/",)),
    "signatures": Feature(both=("signature/", "third_party/p256/")),
    "scores": Feature(both=("scoring/head.", *PAIRS), program=("scoring/scoring.",)),
    "host": Feature(program=("program/host.",)),
    "outputs": Feature(
        both=("outputs/model_outputs.",),
        program=("outputs/write_outputs.", "outputs/npz."),
        library=("libembed/outputs.",),
    ),
}
"""By name; a program has those of its model and those that its target asks for."""


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Encoder of a program: C++ that implements ``encoder/encoder.h``."""

    sources: Mapping[str, str]
    """Place → text."""
    runtime: Literal["linked", "loaded", "none"] = "none"
    """Whether ONNX Runtime is linked in, or the library that the manifest names is loaded."""
    outputs: tuple[str, ...] = ()
    """As ``RunnerArtifact.outputs``."""


def source_files(*beginnings: str) -> dict[str, str]:
    """Place below ``csrc`` → text of the sources and headers whose places begin so, sorted."""
    found = dict(_below(files("edgepack.runner.native") / "csrc"))
    return {
        place: file.read_text(encoding="utf-8")
        for place, file in sorted(found.items())
        if place.endswith((".h", *LANGUAGES)) and place.startswith(beginnings)
    }


def _below(folder: Traversable, above: str = "") -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _below(each, f"{above}{each.name}/")
        else:
            yield f"{above}{each.name}", each


def ort_encoder(runtime: Literal["linked", "loaded"]) -> Encoder:
    """ONNX Runtime, linked into the program or in a library of its own."""
    found = source_files("encoder/ort_session.cc", f"encoder/ort_{runtime}.cc")
    return Encoder(sources=found, runtime=runtime, outputs=("scores", "sparse", "tokens"))


def own_encoder(
    sources: Mapping[str, str], includes: Sequence[Path] = (), outputs: tuple[str, ...] = ()
) -> Encoder:
    """A plugin's, file name → text. The headers of ``includes`` lie in ``include``; of two with the same place the first is taken."""
    headers = {
        f"include/{path.relative_to(folder).as_posix()}": path.read_text(encoding="utf-8", errors="replace")
        for folder in reversed(includes)
        for path in sorted(folder.rglob("*"))
        if path.suffix in HEADERS and path.is_file()
    }
    own = {f"encoder/own/{name}": text for name, text in sources.items()}
    return Encoder(sources={**headers, **own}, outputs=outputs)


def program_sources(
    encoder: Encoder, features: Iterable[str] = ("search",), *, possible: Iterable[str] = (), key: str = ""
) -> dict[str, str]:
    """The program ``embed``: place → text. ``possible``: features that its target can be asked for, of whose options the program says so.
    ``key``: a public key in PEM, which every bundle has to be signed with."""
    features = {*features, "search", *(("signatures",) if key else ())}
    found = _sources(encoder, "program/", features, "program", key)
    if "host" in features:
        found[HOSTED] = found[HOSTED].replace("HOSTED = false", "HOSTED = true")
    return {**found, **option_headers({"embed", *features}, possible={*possible})}


def library_sources(encoder: Encoder, features: Iterable[str] = (), *, key: str = "") -> dict[str, str]:
    """libembed, which can check signatures and has chunks: place → text; a feature that is a program's alone adds nothing."""
    return _sources(encoder, "libembed/", {*features, "signatures", "chunks"}, "library", key)


def _sources(
    encoder: Encoder, own: str, features: Iterable[str], form: Literal["program", "library"], key: str
) -> dict[str, str]:
    """Sources of a program: the common ones, the form's own folder, the features' sources, all headers, and the list of the features."""
    every = [place for each in FEATURES.values() for place in (*each.both, *each.program, *each.library)]
    wanted = [place for name in features for place in (*FEATURES[name].both, *getattr(FEATURES[name], form))]
    found = {
        place: text
        for place, text in source_files("").items()
        if place.endswith(".h")
        or place.startswith(tuple(wanted))
        or (place.startswith((*COMMON, own)) and not place.startswith(tuple(every)))
    }
    found |= encoder.sources
    return {**found, "features/list.cc": feature_list(found, key)}


def feature_list(sources: Mapping[str, str], key: str = "") -> str:
    """C++ that lists the descriptors in these sources, and the key that bundles have to be signed with."""
    pattern = re.compile(r"^extern const Feature (\w+) = ", re.MULTILINE)
    # By name: what a model gives, and its scores, are asked before the search.
    names = sorted(name for text in sources.values() for name in pattern.findall(text))
    declared = "".join(f"extern const Feature {name};\n" for name in names)
    listed = "".join(f"&{name}, " for name in names)
    required = json.dumps(key) if key else "nullptr"
    return (
        f'// Generated.\n#include "features/feature.h"\nnamespace embed {{\n{declared}'
        f"const Feature *const FEATURES[] = {{{listed}nullptr}};\nconst char *const REQUIRED_KEY = {required};\n}}\n"
    )
