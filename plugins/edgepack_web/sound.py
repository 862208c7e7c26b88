"""A finished page read again: whether what browsers are sent says what the manifest says, which alone is compared with the model."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from edgepack.api import Bundle, PreparedModel, RuntimeArtifact, Target
from edgepack.toml_schema import parse_foreign, read_foreign
from edgepack_web.encoded import LEVELS, is_copy

DOCUMENT = "bundle.json"
MOST, MOST_RUNTIMES = 4 << 20, 8
"""Bytes of it; that of a page has some 3,000."""


class PageCheck:
    """A check of bundles alone: ``write_page`` makes both of the same model."""

    def __call__(
        self, model: PreparedModel, runtime: RuntimeArtifact | None, target: Target, /
    ) -> Iterable[str] | None:
        return None

    def bundle(self, bundle: Bundle, /) -> Iterable[str] | None:
        """Faults of a page; ``None`` for a bundle that is none."""
        listed = {str(file["path"]) for file in bundle.manifest["files"]}
        if DOCUMENT not in listed:
            return None
        page = _page(bundle)
        return [*_differences(page, bundle.manifest["model"]), *_other_copies(bundle, listed)]

    def forms(self, bundle: Bundle, /) -> Mapping[str, Mapping[str, bytes]]:
        """A page with each of its runtimes alone, and with what browsers without relaxed SIMD take; not those for a GPU."""
        page = _page(bundle) if (bundle.directory / DOCUMENT).is_file() else {}
        first, *others = [each for each in page.get("runtimes", ()) if not each.get("gpu")] or [{}]
        forms = {f"with its runtime {number}": each for number, each in enumerate(others, start=2)}
        if "relaxed" in first:
            forms["without relaxed SIMD"] = {key: value for key, value in first.items() if key != "relaxed"}
        return {
            name: {DOCUMENT: json.dumps({**page, "runtimes": [each]}).encode()}
            for name, each in forms.items()
        }


def _page(bundle: Bundle) -> Any:
    return parse_foreign(read_foreign(bundle.directory / DOCUMENT, most=MOST))


def _differences(page: Any, model: Any) -> Iterator[str]:
    """Facts of the model that bundle.json has otherwise than the manifest."""
    pairs = (
        (("model", "dimension"), model["dimension"]),
        (("model", "maxLength"), model.get("max_length")),
        (("model", "batchDependent"), model.get("batch_dependent")),
        (("model", "prefixes"), model.get("prefixes")),
        (("model", "matryoshka"), model.get("matryoshka")),
        (("tokenizer", "table", "path"), model.get("tokenizer")),
    )
    runtimes = _at(page, ("runtimes",))
    if not isinstance(runtimes, list) or not all(isinstance(each, dict) for each in runtimes):
        yield f"{DOCUMENT} has no list of runtimes"
    elif len(runtimes) > MOST_RUNTIMES:
        yield f"{DOCUMENT} lists {len(runtimes)} runtimes, each of which would be run; at most {MOST_RUNTIMES} are"
    parts = _at(page, ("model", "parts"))
    pieces = [_at(part, ("path",)) for part in parts] if isinstance(parts, list) else None
    found = [
        *((".".join(keys), _at(page, keys), wanted) for keys, wanted in pairs),
        ("model.parts", pieces, model.get("pieces")),
    ]
    for name, value, wanted in found:
        if json.dumps(value, sort_keys=True) != json.dumps(wanted, sort_keys=True):
            yield f"{DOCUMENT} says {name} {json.dumps(value)[:80]}, the manifest {json.dumps(wanted)[:80]}"


def _at(value: Any, keys: Iterable[str]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _other_copies(bundle: Bundle, listed: set[str]) -> Iterator[str]:
    """Compressed copies, which hosts send in a file's place, of something else."""
    for path in sorted(listed):
        for suffix in LEVELS:
            if path.endswith(suffix) and not is_copy(bundle.directory / path, suffix):
                yield f"{path} is no copy of {path.removesuffix(suffix)}"
