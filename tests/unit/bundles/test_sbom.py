"""The bill of materials: valid for others' tools, complete, and of the same bytes each time."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from tests.support.house import ROOT

from edgepack.bundles.components import components_of
from edgepack.bundles.model_card import model_card
from edgepack.foundry.link.index import known_units
from edgepack.foundry.releases.registry import RELEASE
from edgepack.licenses.components import known_components, linked_component
from edgepack.licenses.vulnerabilities import Vulnerability, known_vulnerabilities
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.operators import Operator, Operators
from edgepack.records.runtime import RuntimeArtifact, SourceFile
from edgepack.records.target import ModelOptions

pytestmark = pytest.mark.tools("gcc")


def bill_of(bundle: Bundle) -> dict[str, Any]:
    return dict(json.loads((bundle.directory / "LICENSES/sbom.cdx.json").read_text()))


def by_name(bill: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in bill["components"]}


def test_it_names_every_component_and_every_file(bundle: Bundle) -> None:
    parts = by_name(bill_of(bundle))
    noticed = [path.stem for path in (bundle.directory / "LICENSES").glob("*.txt") if path.stem != "NOTICES"]
    files = {
        file["path"]: file["sha256"]
        for file in bundle.manifest["files"]
        if file["part"] != "licenses" and file["mode"] != "link"
    }
    assert set(parts) == {*noticed, *files}
    for path, digest in files.items():
        assert parts[path]["hashes"] == [{"alg": "SHA-256", "content": digest}]


def test_what_is_known_of_a_component_is_said(bundle: Bundle) -> None:
    parts = by_name(bill_of(bundle))
    runtime = parts["onnxruntime"]
    assert runtime["version"] == "1.21.0"
    assert runtime["purl"] == "pkg:github/microsoft/onnxruntime@v1.21.0"
    assert runtime["supplier"] == {"name": "Microsoft Corporation"}
    assert runtime["licenses"] == [{"license": {"id": "MIT"}}]
    # Nobody said which Eigen it is: no version is made up.
    assert "version" not in parts["eigen"] and parts["eigen"]["purl"] == "pkg:gitlab/libeigen/eigen"


def test_what_needs_what(bundle: Bundle) -> None:
    needs = {each["ref"]: set(each["dependsOn"]) for each in bill_of(bundle)["dependencies"]}
    assert needs["onnxruntime"] == {"eigen"}
    assert needs["bundle"] == {"edgepack", "tiny-model", "onnxruntime", "python"}


def test_the_model_says_where_it_comes_from_and_what_it_was_held_to(
    bundle: Bundle, source: ModelSource
) -> None:
    model = by_name(bill_of(bundle))["tiny-model"]
    shipped = next(file for file in bundle.manifest["files"] if file["part"] == "model")
    assert model["hashes"] == [{"alg": "SHA-256", "content": shipped["sha256"]}]
    [ancestor] = model["pedigree"]["ancestors"]
    assert ancestor["name"] == source.name
    assert {(each["name"], each["hashes"][0]["content"]) for each in ancestor["components"]} == {
        (file.path, file.sha256) for file in source.files
    }
    metrics = model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    assert {"type": "mean cosine to the full-precision model, at least", "value": "0.985"} in metrics


def test_a_gate_that_is_off_claims_nothing(model: PreparedModel) -> None:
    card = model_card(model, ModelOptions(gate="off", min_cosine=0.985), [])
    assert card["modelCard"]["quantitativeAnalysis"]["performanceMetrics"] == []


@pytest.mark.parametrize(
    ("origin", "purl"),
    [
        ("hf:intfloat/e5-small-v2@" + "ab" * 20, "pkg:huggingface/intfloat/e5-small-v2@" + "ab" * 20),
        ("hf:intfloat/e5-small-v2@main", None),
        ("pypi:model2vec-Data==1.2.0", "pkg:pypi/model2vec-data@1.2.0"),
        ("catalogue:a/b", None),
    ],
)
def test_a_source_at_a_revision_has_an_address(model: PreparedModel, origin: str, purl: str | None) -> None:
    source = replace(model.source, origin=origin)
    card = model_card(replace(model, source=source), ModelOptions(), [])
    assert card["pedigree"]["ancestors"][0].get("purl") == purl


def test_two_builds_give_the_same_bytes_and_another_model_another_serial_number(
    assembled: Callable[..., Bundle], model: PreparedModel, tmp_path: Path
) -> None:
    bills = [bill_of(assembled(tmp_path / name)) for name in ("a", "b")]
    assert bills[0] == bills[1]
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bills[0]["serialNumber"])
    other = bill_of(assembled(tmp_path / "c", model=replace(model, precision="int8")))
    assert other["serialNumber"] != bills[0]["serialNumber"]
    assert "timestamp" not in json.dumps(bills[0])


def test_sources_and_wheels_are_named_with_their_digests(
    assembled: Callable[..., Bundle], runtime: RuntimeArtifact, tmp_path: Path
) -> None:
    source_files = (
        SourceFile(component="eigen", version="5.0.1", file="eigen.tar.bz2", sha256="1" * 64),
        SourceFile(component="onnxruntime", version="9", file="pkg:pypi/o@9", sha256="2" * 64, shipped=True),
        SourceFile(component="re2", version="1", file="re2.tar.gz", sha256="3" * 64),
    )
    parts = by_name(bill_of(assembled(tmp_path / "a", runtime=replace(runtime, source_files=source_files))))
    assert parts["eigen"]["version"] == "5.0.1"
    [reference] = parts["eigen"]["externalReferences"]
    assert (reference["type"], reference["url"]) == ("source-distribution", "eigen.tar.bz2")
    assert reference["hashes"] == [{"alg": "SHA-256", "content": "1" * 64}]
    assert parts["onnxruntime"]["externalReferences"][0]["type"] == "distribution"
    assert "re2" not in parts, "it was a source, and nothing of it was linked"


def test_a_component_s_own_bill_lies_within_it(
    assembled: Callable[..., Bundle], runner: RunnerArtifact, tmp_path: Path
) -> None:
    crate = {
        "type": "library",
        "bom-ref": "registry#anstream@1.0.0",
        "name": "anstream",
        "version": "1.0.0",
        "purl": "pkg:cargo/anstream@1.0.0",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
    }
    (tmp_path / "tokenizers.cdx.json").write_text(json.dumps({"components": [crate]}))
    (tmp_path / "tokenizers.txt").write_text("Apache License\n")
    texts = (tmp_path / "tokenizers.cdx.json", tmp_path / "tokenizers.txt")
    made = assembled(tmp_path / "a", runner=replace(runner, licenses=texts))
    [inside] = by_name(bill_of(made))["tokenizers"]["components"]
    assert inside == {key: value for key, value in crate.items() if key != "bom-ref"}
    assert not list((made.directory / "LICENSES").glob("tokenizers.cdx*"))


def test_what_only_a_plugin_knows_is_listed_all_the_same(
    source: ModelSource, runtime: RuntimeArtifact, runner: RunnerArtifact, tmp_path: Path
) -> None:
    (tmp_path / "acme-npu-3.1.txt").write_text("Ask Acme.\n")
    given = replace(runner, licenses=(tmp_path / "acme-npu-3.1.txt",))
    found = {each.name: each for each in components_of(source, runtime, given)}
    assert found["acme-npu"].version == "3.1" and found["acme-npu"].known is None


def test_what_is_published_of_a_component_is_said_with_what_it_means_here(
    assembled: Callable[..., Bundle], runtime: RuntimeArtifact, tmp_path: Path
) -> None:
    for name in ("onnx-1.17.0", "protobuf-9.9"):
        (tmp_path / f"{name}.txt").write_text("a licence\n")
    texts = (*runtime.licenses, tmp_path / "onnx-1.17.0.txt", tmp_path / "protobuf-9.9.txt")

    def found(kind: str, *names: str) -> dict[str, dict[str, Any]]:
        kernels = frozenset(Operator(domain="ai.onnx", name=name, since=13) for name in names)
        given = replace(runtime, licenses=texts, kind=kind, provides=Operators(kernels=kernels))
        bill = bill_of(assembled(tmp_path / "-".join((kind, *names)), runtime=given))
        return {each["id"]: each for each in bill["vulnerabilities"]}

    minimal, full = found("minimal"), found("full")
    assert {each["affects"][0]["ref"] for each in minimal.values()} == {"onnx", "onnxruntime"}
    links = "CVE-2026-27489"
    assert minimal[links]["analysis"]["justification"] == "code_not_present"
    assert full[links]["analysis"]["state"] == "in_triage", "there the checker is linked"
    assert full["CVE-2025-51480"]["analysis"]["state"] == "not_affected", "that is Python's"
    gather = "microsoft/onnxruntime#27444"
    assert minimal[gather]["analysis"]["detail"] == "No kernel of Gather is linked."
    assert found("minimal", "Gather")[gather]["analysis"]["state"] == "in_triage"
    assert found("stock")[gather]["analysis"]["state"] == "in_triage", "everything is in a stock library"


def test_another_release_has_its_own_statement(
    assembled: Callable[..., Bundle], runtime: RuntimeArtifact, tmp_path: Path
) -> None:
    def said(version: str) -> tuple[list[str], list[str]]:
        texts = []
        for name in ("onnxruntime", "protobuf"):
            texts.append(tmp_path / f"{name}-{version}.txt")
            texts[-1].write_text("a licence\n")
        given = replace(runtime, version=version, kind="stock", licenses=tuple(texts))
        bill = bill_of(assembled(tmp_path / f"stock-{version}", runtime=given))
        return [each["id"] for each in bill["vulnerabilities"]], [
            each["value"] for each in bill["metadata"]["properties"]
        ]

    assert said("1.31.1") == ([], ["onnxruntime 1.31.1: 2026-11-22"])
    assert said("1.29.0") == ([], ["onnxruntime 1.29.0: not searched"])
    ids, properties = said("1.21.0")
    assert properties == ["onnxruntime 1.21.0: 2026-11-22"]
    assert set(ids) == {each.id for each in known_vulnerabilities()}, (
        "its onnx and abseil are inside the library"
    )


def test_each_entry_names_where_and_when_it_was_read() -> None:
    known = known_vulnerabilities()
    assert len({each.id for each in known}) == len(known)
    for each in known:
        named = r"CVE-\d{4}-\d{4,}|VA-[\d-]+|DHI-[\w-]+|microsoft/onnxruntime[#@][\da-f]+"
        assert re.fullmatch(named, each.id) and each.source.startswith("https://")
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", each.seen) and each.component in known_components()
        assert (each.state == "not_affected") == (each.justification is not None)


def test_the_page_says_of_every_entry_what_it_comes_to() -> None:
    page = (ROOT / "docs/supply-chain.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(): line for line in page.splitlines() if line.startswith("| ")}

    def row_of(each: Vulnerability) -> str:
        if each.operators:
            return "linked with the operator's kernel only: in triage if the model needs it"
        if each.state == "not_affected":
            return "never linked" if each.objects else "not compiled: Python or Java"
        return "linked into every runtime: in triage" if each.objects else "nobody has checked: in triage"

    for each in known_vulnerabilities():
        assert each.id in rows[row_of(each)], f"{each.id}: {row_of(each)}"


def test_what_an_entry_names_is_there() -> None:
    """A pattern that matches nothing would say of everything that it is not linked."""
    units = known_units(RELEASE)
    never_compiled = ("onnx/onnx/onnx/version_converter/*", "*/orttraining/*")
    kernels = ("svm*.cc",)
    for each in known_vulnerabilities():
        assert each.release == RELEASE.version and (not each.operators or each.objects)
        for pattern in each.objects:
            found = [name for name in units if fnmatchcase(name, pattern)]
            assert found or pattern in never_compiled or pattern.endswith(kernels), f"{each.id}: {pattern}"


def test_the_table_and_the_pinned_sources_agree() -> None:
    known = known_components()
    for part in RELEASE.catalogue.parts.values():
        assert known[part.name].license == part.license


def test_a_new_upstream_source_is_of_no_known_component() -> None:
    assert linked_component("absl_hash/abseil/absl/hash/internal/hash.cc") == "abseil"
    assert linked_component("libprotobuf-lite/protobuf/src/google/protobuf/arena.cc") == "protobuf"
    assert linked_component("cpuinfo/pytorch_cpuinfo/src/init.c") is None
