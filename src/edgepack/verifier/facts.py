"""What a manifest says, held against what whoever verifies has found: its model's facts against the source, its promises against the figures."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgepack.bundles.floor import require_compatible_elf
from edgepack.bundles.golden import TEXTS, read_golden
from edgepack.bundles.manifest import LICENSES, bundle_name
from edgepack.bundles.model_section import prefixes, source_section
from edgepack.errors import BundleError, ModelError, VerificationError
from edgepack.files.store import disk_errors
from edgepack.models.find.catalogue import CATALOGUE_PREFIX
from edgepack.operators.config import operators_of_ort_model
from edgepack.records.bundle import Bundle
from edgepack.records.figures import LIMITS, shortfalls
from edgepack.records.model import FLOAT_PRECISIONS, ModelSource
from edgepack.records.report import Verification
from edgepack.records.target import ModelOptions, Platform
from edgepack.toml_schema import Malformed, read_table
from edgepack.verifier.command import runs_itself
from edgepack.verifier.gate import of_source
from edgepack.verifier.tokens import has_fewer_tokens

INCOMPARABLE = ("origin", "graph_by", "pooling_from", "set", "warnings")
"""Keys of a source's section that depend on how the model was named, or on which edgepack read it."""


def _named(keys: Mapping[str, Sequence[str]]) -> frozenset[str]:
    return frozenset(f"{section}{key}" for section, within in keys.items() for key in within)


HELD = _named(
    {
        "": ("schema", "name", "version", "files", "golden"),
        "model.": ("recipe", "precision", "embedder", "source_files", "file", "pieces", "tokenizer"),
        "target.": ("name", "platform"),
        "runtime.": ("name", "version", "library"),
        "runner.": ("program", "command", "serve", "module"),
        "gate.": ("gate",),
    }
)
"""What of a manifest, beside the model's facts, is compared with something when it is verified, or shown with its value."""
WRITTEN = _named(
    {
        "": ("edgepack", "made_by", "checks", "visits"),
        "model.": ("origin", "graph_by", "pooling_from", "set", "warnings", "format", "cpu_file", "inputs", "output", "batch_dependent"),
        "target.": ("summary", "builder", "extra", "platform.isa", "platform.has", "platform.branch_protection"),
        "runtime.": ("kind", "toolchain", "requires", "operators", "provider", "changes"),
        "runner.": ("kind", "library", "by_level", "exact", "check", "versions"),
    }
)  # fmt: skip
"""What edgepack writes beside that: it comes first in a list that may end early."""
MEASURED = frozenset(f"gate.{key}" for key in LIMITS if key.startswith("min_"))
UNHELD = ("isa", "has", "branch_protection")
"""What of a platform is not held against the files."""
SECTIONS = ("model", "target", "runtime", "runner", "gate")
MOST_NAMES, MOST_LETTERS = 40, 80
LOWEST_OF_PRECISION: Mapping[str, float] = {"fp32": 0.999, "fp16": 0.998, "bf16": 0.98}
"""Lowest cosine on the 200 texts of what calls itself so; int8 models of edgepack's recipes have 0.985 to 0.997."""

OWN_LIMITS = ModelOptions(
    min_cosine=0.985,
    min_worst_cosine=0.95,
    min_agreement=0.9,
    min_top10=0.9,
    min_batch_cosine=0.999,
    min_long_cosine=0.95,
    min_processor_cosine=0.99,
)
"""What a bundle from elsewhere is held to where nobody says otherwise: what built-in targets ask of int8 models, and limits of the
lowest cosines."""


def given_by_bundle(bundle: Bundle, source: ModelSource) -> ModelSource:
    """The model as the bundle gives it: without further outputs where it gives a vector alone, as some targets do."""
    if "outputs" not in bundle.manifest["model"] and source.outputs is not None and source.outputs.dense:
        return replace(source, outputs=None)
    return source


def require_facts(bundle: Bundle, source: ModelSource) -> tuple[str, ...]:
    """Compare all that the manifest says of the model with what the source says; returns what of it could not be compared, in words.

    Raises ``ModelError`` for other files than the source's, ``VerificationError`` for every other difference, ``FloorError`` or
    ``BundleError`` for files that do not run on the platform that the manifest names.
    """
    said, found = bundle.manifest["model"], _expected(source)
    _require_files(bundle, found)
    _require_name(bundle)
    unknown = _unknown(said, found)
    compared = (said.keys() | found.keys()) & _comparable(found) - unknown
    wrong = [key for key in sorted(compared) if not _same(said.get(key), found.get(key))]
    if wrong:
        differ = "; ".join(f"{key} is {_shown(said.get(key))}, not {_shown(found.get(key))}" for key in wrong)
        raise VerificationError(
            f"the manifest of {bundle.name} says of its model what is not so (the model's own value last): {differ}",
            hint="build it again; what its maker set on purpose is repeated with --pooling, --normalize, --prompt",
        )
    _require_platform(bundle)
    _require_operators(bundle)
    runtime, gate = bundle.manifest["runtime"] or {}, bundle.manifest["gate"]
    words = (
        ("version", bundle.manifest.get("version")),
        *((key, said.get(key)) for key in ("recipe", "precision", "embedder")),
        # Known vulnerabilities go by it.
        ("runtime", runtime and f"{runtime.get('name', 'ONNX Runtime')} {runtime.get('version')}"),
    )
    return (
        *(f"{key} {_shown(said[key])}" for key in sorted(unknown)),
        *(f"{key} {value}" for key, value in words if value),
        *(["the full gate"] if gate.get("gate") == "full" else []),
        *(["licences and bill of materials"] if _has_licenses(bundle) else []),
        *(["golden vectors of other texts"] if tuple(read_golden(bundle)[0]) != TEXTS else []),
        *(["a tokenizer with fewer tokens than the model's"] if has_fewer_tokens(bundle) else []),
        *_others(bundle.manifest, {f"model.{key}" for key in compared | unknown}),
    )


def _others(manifest: Mapping[str, Any], compared: set[str]) -> tuple[str, ...]:
    """All that is left of a manifest, by its keys: also what no edgepack has written yet. What is empty says nothing."""
    asked = set() if manifest["gate"].get("gate") == "off" else MEASURED
    asked |= {"runner.exact"} if "vectors_sha256" in manifest["model"] else set()
    left = (name for name in _keys(manifest) if name not in HELD | compared | asked)
    names = sorted(left, key=lambda name: (name not in WRITTEN, name))
    more = len(names) - MOST_NAMES
    shown = [*names[:MOST_NAMES], *([f"{more} more"] if more > 0 else [])]
    return (f"in its manifest also {', '.join(shown)}",) if shown else ()


def _keys(manifest: Mapping[str, Any]) -> Iterator[str]:
    """``KEY``, or ``SECTION.KEY``, of what says something."""
    for section, value in manifest.items():
        if section == "target" and isinstance(platform := value.get("platform"), Mapping):
            # The rest of it is held against the files.
            yield from (f"target.platform.{key}" for key in UNHELD if _says(platform.get(key)))
        if section in SECTIONS and isinstance(value, Mapping):
            yield from (f"{section}.{key[:MOST_LETTERS]}" for key, said in value.items() if _says(said))
        elif _says(value):
            yield section[:MOST_LETTERS]


def _says(value: Any) -> bool:
    return not (value is None or value is False or value in ("", [], {}))


def _has_licenses(bundle: Bundle) -> bool:
    return any(str(file["path"]).startswith(f"{LICENSES}/") for file in bundle.manifest["files"])


def not_asked(bundle: Bundle, source: ModelSource, found: Verification) -> tuple[str, ...]:
    """Return in words what of the model no answer has shown: how the program is asked, the manifest says."""
    runner = bundle.manifest["runner"]
    words = {
        f"texts of more than {found.long_tokens:,} tokens": found.long_tokens > 0,
        "pairs of texts": found.scores is not None and not found.scores.same_pairs,
        "its tokenizer by itself": not found.same_tokens and not has_fewer_tokens(bundle),
        "texts after its prompts": bool(prefixes(source))
        and not source.ranks
        and found.prompt_cosine is None,
        "shorter vectors of its program": bool(found.lengths) and found.shorter_cosine is None,
        f"what it does elsewhere than in {(runner.get('command') or [''])[0]}": not runs_itself(bundle),
    }
    return tuple(word for word, lacks in words.items() if lacks)


def require_precision(bundle: Bundle, found: Verification) -> None:
    """Hold the lowest cosine against the precision that the manifest says. Raises ``VerificationError``."""
    precision = str(bundle.manifest["model"].get("precision"))
    least = LOWEST_OF_PRECISION.get(precision, 0.0) if found.against in FLOAT_PRECISIONS else 0.0
    if found.texts and found.min_cosine < least:
        raise VerificationError(
            f"the manifest of {bundle.name} says that its model is {precision}, but its lowest cosine is {found.min_cosine:.4f}; "
            f"such a model has at least {least:g}",
            hint="build it again: the manifest was changed, or a builder names the wrong precision",
        )


def require_promises(bundle: Bundle, source: ModelSource, found: Verification) -> None:
    """Hold the figures against the limits that the manifest says the bundle keeps. Raises ``VerificationError``."""
    if not found.texts:
        return
    if short := shortfalls(found, of_source(_promised(bundle), source)):
        raise VerificationError(
            f"the manifest of {bundle.name} says that it keeps limits that it does not keep: {' and '.join(short)}",
            hint="the manifest was changed, or this processor computes otherwise than its maker's; build it again",
        )


def limits_of(manifest: Mapping[str, Any]) -> ModelOptions:
    """Limits that a bundle was held to, from its manifest."""
    gate = manifest["gate"]
    return ModelOptions(**{key: gate[key] for key in ("gate", *LIMITS) if key in gate})


def _promised(bundle: Bundle) -> ModelOptions:
    """The limits that the manifest names, of those that are measured without the full gate."""
    gate = bundle.manifest["gate"]
    said = {key: gate[key] for key in LIMITS if key.startswith("min_") and key in gate}
    if gate.get("gate") == "off":
        return ModelOptions(min_long_cosine=0)
    try:
        return read_table(ModelOptions, said, where="gate")
    except Malformed as error:
        raise BundleError(f"the manifest of {bundle.name}: {error}", hint=error.hint) from error


def _expected(source: ModelSource) -> dict[str, Any]:
    """The source's section as JSON gives it back."""
    found: dict[str, Any] = json.loads(json.dumps(source_section(source)))
    return found


def _comparable(found: Mapping[str, Any]) -> set[str]:
    """Keys that a source may have, whether or not this one has them."""
    sometimes = {
        "source_precision",
        "vectors",
        "default_prompt",
        "task",
        "head",
        "labels",
        "activation",
        "outputs",
    }
    return ({*found} | sometimes) - {*INCOMPARABLE, "source_files"}


def _unknown(said: Mapping[str, Any], found: Mapping[str, Any]) -> set[str]:
    """Keys of which this source knows nothing: a folder's name is not the model's, and a folder may lack the model card."""
    named = found["origin"] == said.get("origin") or found["origin"].startswith(CATALOGUE_PREFIX)
    unnamed = set() if named or said.get("name") == found["name"] else {"name"}
    return unnamed | ({"license"} if found["license"] is None and said.get("license") else set())


def _require_name(bundle: Bundle) -> None:
    """The bundle is called by its model and its target."""
    model, target = str(bundle.manifest["model"].get("name")), str(bundle.manifest["target"].get("name"))
    if bundle.manifest["name"] != (name := bundle_name(model, target)):
        raise VerificationError(
            f"the manifest calls the bundle {_shown(bundle.manifest['name'])}; by its model and target it is {_shown(name)}",
            hint="build it again",
        )


def _require_files(bundle: Bundle, found: Mapping[str, Any]) -> None:
    here = {str(file["path"]): str(file["sha256"]) for file in found["source_files"]}
    try:
        listed = bundle.manifest["model"]["source_files"]
        made_from = {str(file["path"]): str(file["sha256"]) for file in listed}
    except (KeyError, TypeError) as error:
        raise BundleError(
            f"the manifest of {bundle.name} does not list the files that its model was made from",
            hint="build it again",
        ) from error
    for path in sorted(made_from.keys() | here.keys()):
        if made_from.get(path) != here.get(path):
            raise ModelError(
                f"the bundle was made from another model: {path} has sha256 {here.get(path)}, the manifest says {made_from.get(path)}",
                hint="name the original model with --model",
            )


def _require_platform(bundle: Bundle) -> None:
    """Every file runs on the platform that the manifest names."""
    runtime = bundle.manifest["runtime"] or {}
    provider = runtime.get("provider") or {}
    try:
        said = {
            key: value for key, value in bundle.manifest["target"]["platform"].items() if value is not None
        }
        platform = read_table(Platform, said, where="target.platform")
    except (Malformed, KeyError, AttributeError) as error:
        raise BundleError(
            f"the manifest of {bundle.name} does not name its platform: {error}", hint="build it again"
        ) from error
    require_compatible_elf(
        bundle.directory, platform, device=(*provider.get("libraries", ()), *provider.get("system", ()))
    )


def _require_operators(bundle: Bundle) -> None:
    """The runtime has the kernels that the model names, if the manifest lists kernels and the model's format tells what it needs."""
    model, runtime = bundle.manifest["model"], bundle.manifest["runtime"] or {}
    listed = runtime.get("operators")
    if listed is None or model.get("format") != "ort":
        return
    with tempfile.TemporaryDirectory() as folder:
        needs = operators_of_ort_model(_whole_model(bundle, Path(folder)))
    has = {str(line).partition("{")[0] for line in listed}
    missing = sorted({f"{op.domain};{op.since};{op.name}" for op in needs.kernels} - has)
    if missing:
        raise VerificationError(
            f"the manifest of {bundle.name} lists the runtime's kernels without {', '.join(missing[:3])}, which its model needs",
            hint="build it again",
        )


def _whole_model(bundle: Bundle, folder: Path) -> Path:
    """The model's file, put together in ``folder`` where the bundle has it in pieces."""
    model = bundle.manifest["model"]
    file, pieces = bundle.directory / str(model["file"]), model.get("pieces", ())
    if len(pieces) < 2:
        return file
    whole = folder / file.name
    with disk_errors(whole), whole.open("wb") as out:
        for piece in pieces:
            with (bundle.directory / piece).open("rb") as content:
                shutil.copyfileobj(content, out, 1 << 20)
    return whole


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON: ``1`` is not ``true``."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"
