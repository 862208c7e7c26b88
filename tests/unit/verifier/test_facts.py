"""A manifest that says what is not so of its model, its platform or its limits is not verified, whichever fact it is."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from edgepack.bundles.manifest import operator_lines
from edgepack.errors import BundleError, EdgepackError, FloorError, ModelError, VerificationError
from edgepack.operators.config import operators_of_ort_model
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.records.report import LengthFigure, Verification
from edgepack.runner.freeze.sample_bundle import sample_model
from edgepack.verifier.facts import not_asked, require_facts, require_precision, require_promises

pytestmark = pytest.mark.tools("gcc")

Change = Callable[[dict[str, Any]], object]


def altered(bundle: Bundle, change: Change) -> Bundle:
    """The bundle as a stranger has changed its manifest."""
    manifest = json.loads(json.dumps(bundle.manifest))
    change(manifest)
    return replace(bundle, manifest=manifest)


def set_model(**said: Any) -> Change:
    return lambda manifest: manifest["model"].update(said)


def test_what_is_so_passes_and_what_could_not_be_compared_is_said(
    bundle: Bundle, source: ModelSource
) -> None:
    said = require_facts(bundle, source)
    assert said[:3] == ("version 0.1.0", "recipe pool", "precision fp32") and said[3].startswith("embedder ")
    assert said[4:6] == ("runtime ONNX Runtime 1.21.0", "licences and bill of materials")
    others = said[6].removeprefix("in its manifest also ").split(", ")
    assert {"edgepack", "model.inputs", "runner.versions", "runtime.toolchain", "target.summary"} < {*others}
    held = altered(bundle, lambda manifest: manifest["target"]["platform"].update(branch_protection=True))
    assert "target.platform.branch_protection" in require_facts(held, source)[6]
    claimed = altered(bundle, set_model(embedder="0" * 32))
    assert require_facts(claimed, source)[3] == f"embedder {'0' * 32}"
    claimed = altered(bundle, lambda manifest: manifest["gate"].update(gate="full"))
    assert "the full gate" in require_facts(claimed, source)
    elsewhere = replace(source, name="copy", origin="copy", license=None)
    said = require_facts(bundle, elsewhere)
    assert said[:2] == ('license "apache-2.0"', 'name "tiny-org/tiny-model"')
    # Whoever writes that word into a manifest has no tokenizer compared.
    pruned = altered(bundle, set_model(recipe="pool, prune-vocabulary"))
    assert "a tokenizer with fewer tokens than the model's" in require_facts(pruned, source)
    assert "golden vectors of other texts" not in require_facts(bundle, source)
    golden = bundle.directory / "golden.json"
    said_of = json.loads(golden.read_text())
    golden.write_text(json.dumps({**said_of, **{key: said_of[key][:1] for key in ("texts", "vectors")}}))
    assert "golden vectors of other texts" in require_facts(bundle, source)


SEEN_BY_A_RUN = {
    "golden",
    "model.file",
    "model.tokenizer",
    "runner.program",
    "runner.command",
    "runtime.library",
}


def other_than(value: Any) -> Any:
    """A lie of the same kind."""
    if isinstance(value, bool):
        return not value
    lies: dict[type, Any] = {str: "a lie", list: ["a lie"]}
    return lies.get(type(value), 4321)


def test_whatever_else_is_written_into_a_manifest_is_refused_or_named(
    bundle: Bundle, source: ModelSource
) -> None:
    """Keys that no edgepack has written yet, too: what is compared is listed, not what is not."""
    manifest = bundle.manifest
    sections = [key for key in manifest if isinstance(manifest[key], dict) and key != "made_by"]
    keys = [f"{section}.{key}" for section in sections for key in (*manifest[section], "certified")]
    plain = [key for key in (*manifest, "certified", "visits") if key not in (*sections, "files")]
    for path in {*keys, *plain} - SEEN_BY_A_RUN:
        section, _, key = path.rpartition(".")

        def lie(all: dict[str, Any], section: str = section, key: str = key) -> None:
            within = all[section] if section else all
            within[key] = other_than(within.get(key))

        try:
            said = "; ".join(require_facts(altered(bundle, lie), source))
        except EdgepackError:
            continue
        assert path in said or "a lie" in said or path.startswith(("schema", "gate.gate", "gate.min_")), path
    off = altered(
        bundle, lambda all: all["gate"].update(gate="off", min_cosine=0.99) or all["runner"].update(exact="x")
    )
    assert {"gate.min_cosine", "runner.exact"} <= {*require_facts(off, source)[-1].replace(",", "").split()}
    many = altered(bundle, lambda all: all["runner"].update({f"{at:03}{'x' * 999}": 1 for at in range(99)}))
    said = "; ".join(require_facts(many, source))
    assert len(said) < 5000 and "runner.versions" in said, "what matters is not pushed out"
    altered_platform = altered(bundle, lambda all: all["target"]["platform"].update(isa=["avx2"]))
    assert "target.platform.isa" in require_facts(altered_platform, source)[-1]


def test_what_its_manifest_keeps_from_being_asked_is_said(bundle: Bundle, source: ModelSource) -> None:
    given = replace(source, prompts={"query": "query: "})
    found = Verification(status="passed", same_tokens=4200, prompt_cosine=0.99)
    assert not_asked(bundle, given, found) == ()
    assert not_asked(bundle, given, replace(found, long_tokens=1023)) == ("texts of more than 1,023 tokens",)
    lacking = replace(found, same_tokens=0, prompt_cosine=None)
    assert not_asked(bundle, source, lacking) == ("its tokenizer by itself",)
    shorter = LengthFigure(dimension=4, mean_cosine=1, min_cosine=1, neighbour_agreement=1, top10_agreement=1)
    cut = replace(found, lengths=(shorter,))
    assert not_asked(bundle, given, cut) == ("shorter vectors of its program",)
    assert not_asked(bundle, given, replace(cut, shorter_cosine=1.0)) == ()
    page = altered(bundle, lambda manifest: manifest["runner"].update(command=["node", "node.mjs"]))
    assert not_asked(page, given, lacking) == (
        "its tokenizer by itself",
        "texts after its prompts",
        "what it does elsewhere than in node",
    )


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (set_model(max_length=32), VerificationError, "max_length is 32, not 64"),
        (set_model(max_length=64.0), VerificationError, "max_length is 64.0, not 64"),
        (set_model(prefixes={"query": "bad ", "passage": ""}), VerificationError, "prefixes is"),
        (set_model(default_prompt="query"), VerificationError, 'default_prompt is "query", not null'),
        (set_model(license="MIT"), VerificationError, 'license is "MIT", not "apache-2.0"'),
        (set_model(name="acme/other"), VerificationError, "by its model and target"),
        (lambda all: all.update(name="other-tiny-target") or all["model"].update(name="acme/other"), VerificationError, 'name is "acme/other"'),
        (set_model(pooling="cls"), VerificationError, 'pooling is "cls", not "mean"'),
        (set_model(normalize=False), VerificationError, "normalize is false, not true"),
        (set_model(normalize=1), VerificationError, "normalize is 1, not true"),
        (set_model(dimension=4), VerificationError, "dimension is 4, not 8"),
        (set_model(matryoshka={"dimensions": [4], "layer_norm": False}), VerificationError, "matryoshka is"),
        (set_model(task="rank", labels=["a"]), VerificationError, "task is"),
        (set_model(outputs={"dense": True}), VerificationError, "outputs is"),
        (set_model(source_precision="fp16"), VerificationError, "source_precision is"),
        (set_model(vectors="cut to 4"), VerificationError, "vectors is"),
        (set_model(source_files=[]), ModelError, "made from another model"),
        (set_model(source_files=[{"path": "model.onnx"}]), BundleError, "does not list the files"),
        (set_model(source_files=7), BundleError, "does not list the files"),
        (lambda all: all["model"].pop("max_length"), VerificationError, "max_length is null, not 64"),
        (lambda all: all["model"]["source_files"].pop(), ModelError, "made from another model"),
        (lambda all: all["target"]["platform"].update(arch="aarch64"), FloorError, "aarch64"),
        (lambda all: all["target"]["platform"].update(glibc="2.0"), FloorError, "glibc"),
        (lambda all: all["target"].update(platform=3), BundleError, "platform"),
        (lambda all: all["target"].pop("platform"), BundleError, "platform"),
    ],
)  # fmt: skip
def test_a_fact_that_is_not_so_fails(
    bundle: Bundle, source: ModelSource, change: Change, kind: type[EdgepackError], words: str
) -> None:
    with pytest.raises(kind) as refused:
        require_facts(altered(bundle, change), source)
    assert words in refused.value.message
    assert refused.value.hint


def test_a_model_in_pieces_is_read_as_one(bundle: Bundle, source: ModelSource, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(sample_model())
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(model.with_suffix(".ort"))
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    content = model.with_suffix(".ort").read_bytes()
    pieces = ["model-1.bin", "model-2.bin"]
    for name, piece in zip(pieces, (content[:100], content[100:]), strict=True):
        (bundle.directory / name).write_bytes(piece)
    needs = operator_lines(operators_of_ort_model(model.with_suffix(".ort")))

    def change(manifest: dict[str, Any]) -> None:
        manifest["model"].update(format="ort", file=pieces[0], pieces=pieces)
        manifest["runtime"]["operators"] = needs

    made = altered(bundle, change)
    assert require_facts(made, source)
    made.manifest["runtime"]["operators"].pop()
    with pytest.raises(VerificationError, match="lists the runtime's kernels without"):
        require_facts(made, source)


def test_a_precision_that_the_vectors_do_not_have_fails(bundle: Bundle) -> None:
    found = Verification(status="passed", texts=200, mean_cosine=0.9971, min_cosine=0.9853)
    with pytest.raises(
        VerificationError, match=r"says that its model is fp32, but its lowest cosine is 0\.9853"
    ):
        require_precision(bundle, found)
    require_precision(altered(bundle, set_model(precision="int8")), found)
    require_precision(bundle, replace(found, min_cosine=0.9999))
    require_precision(bundle, replace(found, against="int8"))
    require_precision(bundle, Verification(status="not verified"))


def test_limits_that_the_bundle_does_not_keep_fail(bundle: Bundle, source: ModelSource) -> None:
    def promising(**gate: Any) -> Bundle:
        return altered(bundle, lambda manifest: manifest.update(gate=gate))

    found = Verification(
        status="passed",
        texts=200,
        mean_cosine=0.9971,
        min_cosine=0.9853,
        neighbour_agreement=1,
        top10_agreement=1,
    )
    with pytest.raises(VerificationError, match=r"does not keep: mean cosine 0\.9971 is below 0\.9999"):
        require_promises(promising(gate="full", min_cosine=0.9999), source, found)
    require_promises(promising(gate="quick", min_cosine=0.99), source, found)
    require_promises(promising(gate="off"), source, found)
    with pytest.raises(BundleError, match="min_cosine"):
        require_promises(promising(gate="quick", min_cosine="high"), source, found)
    # Of what only ranks, the gate does not ask which texts are near each other.
    far, near = replace(found, neighbour_agreement=0.84), promising(gate="quick", min_agreement=0.9)
    with pytest.raises(VerificationError, match="nearest neighbour unchanged"):
        require_promises(near, source, far)
    ranking: Any = SimpleNamespace(ranks=True)
    require_promises(near, ranking, far)
