"""What a manifest says of a bundle's parts, for runners that lay them out in ways of their own."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.golden import ROOT
from tests.support.schema import against

from edgepack.bundles.manifest import (
    PARTS,
    build_manifest,
    canonical,
    file_entry,
    is_part_name,
    mode_of,
    read_manifest,
    write_manifest,
)
from edgepack.errors import BundleError
from edgepack.records.bundle import Placement, RunnerArtifact
from edgepack.records.layers import Dense
from edgepack.records.model import Head, Pooling, PreparedModel
from edgepack.records.outputs import Outputs, Sparse
from edgepack.records.runtime import ExecutionProvider, RuntimeArtifact
from edgepack.records.target import ModelOptions, Platform, Reading, Target

pytestmark = pytest.mark.tools("gcc")
PLACEMENT = Placement(
    model=("pieces/1", "pieces/2"),
    tokenizer="words.bin",
    runtime="ort.wasm",
    cold=("index.js", "pieces/1"),
    warm=("index.js",),
)
HEAD = Head(task="rank", labels=("0",), activation="sigmoid", file=Path("w"), tensor="classifier")


@pytest.fixture
def said(
    target: Target, model: PreparedModel, runtime: RuntimeArtifact, runner: RunnerArtifact
) -> Callable[..., dict[str, Any]]:
    """``said(**parts)``: the manifest of a bundle of the small parts, some of them replaced."""
    given: dict[str, Any] = {"target": target, "model": model, "runtime": runtime, "runner": runner}
    schema = json.loads((ROOT / "docs/schemas/manifest.json").read_text())

    def make(**parts: Any) -> dict[str, Any]:
        made = build_manifest(**{**given, "files": (), **parts})
        assert [*against(schema, json.loads(json.dumps({**made, "files": []})))] == []
        return made

    return make


def test_where_the_parts_lie(said: Callable[..., dict[str, Any]], runner: RunnerArtifact) -> None:
    plain = said()
    assert plain["model"]["file"] == "model/model.onnx"
    assert plain["model"]["tokenizer"] == "model/tokenizer.json"
    assert plain["runtime"]["library"] == "lib/libonnxruntime.so.1.21.0"
    assert not {"pieces", "cpu_file"} & set(plain["model"]) and "visits" not in plain
    own = said(runner=replace(runner, tokenizer=Path("/cache/tokenizer.bin")))
    assert own["model"]["tokenizer"] == "model/tokenizer.bin"


def test_where_a_runner_has_put_them(said: Callable[..., dict[str, Any]], runner: RunnerArtifact) -> None:
    placed = said(runner=replace(runner, placement=PLACEMENT))
    assert placed["model"]["file"] == "pieces/1"
    assert placed["model"]["pieces"] == ["pieces/1", "pieces/2"]
    assert placed["model"]["tokenizer"] == "words.bin"
    assert placed["runtime"]["library"] == "ort.wasm"
    assert placed["visits"] == {"cold": ["index.js", "pieces/1"], "warm": ["index.js"]}
    nothing = replace(PLACEMENT, cold=())
    assert "visits" not in said(runner=replace(runner, placement=nothing))


def test_a_runtime_that_is_linked_into_the_program(
    said: Callable[..., dict[str, Any]], runtime: RuntimeArtifact
) -> None:
    section = said(runtime=replace(runtime, library=None, provides=None, requires=("avx2", "fma")))["runtime"]
    assert section["library"] == "embed"
    assert section["operators"] is None
    assert section["requires"] == ["avx2", "fma"]
    assert (section["version"], section["kind"], section["toolchain"]) == ("1.21.0", "minimal", "gcc")
    assert not {"provider", "changes"} & set(section)
    assert said(runtime=None)["runtime"] is None
    assert said(runtime=replace(runtime, changes=("a -> b",)))["runtime"]["changes"] == ["a -> b"]


def test_a_model_with_a_form_of_its_own_for_the_processor(
    said: Callable[..., dict[str, Any]], model: PreparedModel
) -> None:
    section = said(model=replace(model, cpu_file=Path("/cache/int8.ort")))["model"]
    assert section["cpu_file"] == "model/cpu.ort"
    assert section["file"] == "model/model.onnx"


@pytest.mark.parametrize(
    ("gives", "asked"),
    [
        ({"outputs": Outputs(dense=True, sparse=Sparse(size=60))}, []),
        ({"outputs": Outputs(dense=False, sparse=Sparse(size=60))}, ["--features"]),
        ({"head": HEAD}, ["--features"]),
    ],
)
def test_a_program_without_vectors_is_asked_for_what_the_model_reads(
    gives: dict[str, Any], asked: list[str], said: Callable[..., dict[str, Any]], model: PreparedModel
) -> None:
    made = said(model=replace(model, source=replace(model.source, **gives)))
    assert made["runner"]["command"] == ["embed", *asked, "--jsonl", "--out", "jsonl"]


def test_how_the_program_is_run(said: Callable[..., dict[str, Any]], runner: RunnerArtifact) -> None:
    command = {
        made: said(runner=replace(runner, command=made))["runner"]["command"]
        for made in ((), ("node", "embed.js"), None)
    }
    assert command == {
        (): ["embed", "--jsonl", "--out", "jsonl"],
        ("node", "embed.js"): ["node", "embed.js"],
        None: None,
    }
    section = said()["runner"]
    assert (section["program"], section["kind"]) == ("embed", "gcc")
    assert list(section["versions"].items()) == [("gcc", "12"), ("python", "3.11.7")]


def test_what_the_bundle_was_held_to(said: Callable[..., dict[str, Any]], target: Target) -> None:
    for options, gate in (
        (ModelOptions(gate="off"), {"gate": "off"}),
        (ModelOptions(min_cosine=0.9), {"gate": "quick", "min_cosine": 0.9}),
    ):
        assert said(target=replace(target, model=options))["gate"] == gate


def test_what_the_target_is(said: Callable[..., dict[str, Any]], target: Target) -> None:
    on = Platform(os="linux", arch="aarch64", glibc="2.28", isa=("neon", "i8mm"))
    section = said(target=replace(target, platform=on))["target"]
    assert section == {
        "name": "tiny-target",
        "summary": "a device for tests",
        "builder": "tests",
        "platform": {"os": "linux", "arch": "aarch64", "glibc": "2.28", "isa": ["neon", "i8mm"]},
        "extra": {},
    }


def test_what_the_model_is(said: Callable[..., dict[str, Any]], model: PreparedModel) -> None:
    section = said()["model"]
    source = model.source
    assert {key: section[key] for key in ("name", "origin", "license", "recipe", "precision", "format")} == {
        "name": "tiny-org/tiny-model",
        "origin": "folder tiny-model",
        "license": "apache-2.0",
        "recipe": "pool",
        "precision": "fp32",
        "format": "onnx",
    }
    assert section["inputs"] == ["input_ids", "attention_mask", "token_type_ids"]
    assert (section["dimension"], section["max_length"]) == (source.dimension, source.max_length)
    assert (section["pooling"], section["normalize"]) == (source.pooling.mode, source.pooling.normalize)
    assert (section["output"], section["batch_dependent"]) == (model.output, model.batch_dependent)
    assert [file["path"] for file in section["source_files"]] == ["model.onnx", "tokenizer.json"]
    assert all(file["size"] > 0 and len(file["sha256"]) == 64 for file in section["source_files"])


def test_what_the_vectors_rest_on(said: Callable[..., dict[str, Any]], model: PreparedModel) -> None:
    plain = said()["model"]
    assert (plain["pooling_from"], plain["warnings"]) == ("modules.json", [])
    assert not {"set", "default_prompt", "vectors"} & plain.keys()
    layer = Dense(file=Path("2_Dense/x"), inputs=8, outputs=4, bias=True, activation="Tanh")
    source = replace(
        model.source,
        pooling=Pooling(mode="cls", dense=(layer,), cut=2),
        pooling_from="set",
        default_prompt="query",
        reading=Reading(pooling="cls", prompts={"query": "q: "}),
        warnings=("cls pooling is set, modules.json says mean",),
    )
    section = said(model=replace(model, source=source))["model"]
    assert section["set"] == {"pooling": "cls", "prompts": {"query": "q: "}}
    assert (section["pooling"], section["pooling_from"]) == ("cls", "set")
    assert section["vectors"] == "cls pooling, dense 8 → 4 Tanh, normalized, cut to 2"
    assert section["normalize"] is False, "what is cut has not length 1"
    assert section["default_prompt"] == "query"
    assert section["warnings"] == ["cls pooling is set, modules.json says mean"]


def test_a_source_that_is_not_of_full_precision_is_said(
    said: Callable[..., dict[str, Any]], model: PreparedModel
) -> None:
    assert "source_precision" not in said()["model"]
    given = replace(model, source=replace(model.source, precision="int8"))
    assert said(model=given)["model"]["source_precision"] == "int8"


def test_a_name_without_an_organisation(said: Callable[..., dict[str, Any]], model: PreparedModel) -> None:
    names = {
        name: said(model=replace(model, source=replace(model.source, name=name)))["name"]
        for name in ("alone", "org/one", "a/b/c")
    }
    assert names == {"alone": "alone-tiny-target", "org/one": "one-tiny-target", "a/b/c": "c-tiny-target"}


def test_files_are_in_the_order_of_their_paths_and_builders_may_add_words(
    said: Callable[..., dict[str, Any]],
) -> None:
    made = said(files=[{"path": "b"}, {"path": "a"}], made_by={"plugin": "web"})
    assert [file["path"] for file in made["files"]] == ["a", "b"]
    assert made["made_by"] == {"plugin": "web"} and said()["made_by"] == {}


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        *((part, True) for part in PARTS),
        *((name, True) for name in ("a", "a-1", "a" * 32)),
        *((name, False) for name in ("", "1", "-a", "Model", "a" * 33, "manifest")),
    ],
)
def test_names_of_parts(name: str, fits: bool) -> None:
    assert is_part_name(name) is fits


def test_parts_that_edgepack_names() -> None:
    assert PARTS == ("model", "tokenizer", "runtime", "runner", "licenses", "golden")


def test_the_form_that_digests_are_taken_of() -> None:
    assert canonical({"b": "é", "a": [1, {"d": 2, "c": None}]}) == (
        '{"a":[1,{"c":null,"d":2}],"b":"é"}'.encode()
    )


def test_the_form_that_people_read(tmp_path: Path) -> None:
    write_manifest(tmp_path, {"b": "é", "a": 1})
    assert (tmp_path / "manifest.json").read_bytes() == '{\n "b": "é",\n "a": 1\n}\n'.encode()


@pytest.mark.parametrize(
    ("mode", "said"), [(0o755, "0755"), (0o644, "0644"), (0o654, "0644"), (0o700, "0755")]
)
def test_modes(tmp_path: Path, mode: int, said: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    path.chmod(mode)
    assert mode_of(path) == said


def test_a_link_s_content_is_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    link = tmp_path / "lib" / "link"
    link.symlink_to("nowhere")
    assert file_entry(link, root=tmp_path, part="runtime") == {
        "path": "lib/link",
        "size": 7,
        "sha256": "20aeff0494e828d188c704e1f488a589b15ae01d11f6cb129f62129caa6cc543",
        "mode": "link",
        "part": "runtime",
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "1"}, "is not a bundle's manifest"),
        ({"files": [[]]}, "not complete"),
        ({"golden": 3}, "golden is missing or not what it should be"),
        ({"runtime": []}, "runtime is missing or not what it should be"),
    ],
)
def test_a_form_that_is_wrong(
    said: Callable[..., dict[str, Any]], tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    write_manifest(tmp_path, {**said(), **change})
    with pytest.raises(BundleError, match=words):
        read_manifest(tmp_path)


@pytest.mark.parametrize("command", ["embed", {}, 3, ["embed", 3]])
def test_a_command_is_a_list_of_words(
    said: Callable[..., dict[str, Any]], tmp_path: Path, command: object
) -> None:
    manifest = said()
    write_manifest(tmp_path, {**manifest, "runner": {**manifest["runner"], "command": command}})
    with pytest.raises(BundleError, match="command is not a list of words"):
        read_manifest(tmp_path)


def test_the_schema_has_what_a_manifest_can_have_and_no_more(
    said: Callable[..., dict[str, Any]],
    target: Target,
    model: PreparedModel,
    runtime: RuntimeArtifact,
    runner: RunnerArtifact,
) -> None:
    source = replace(
        model.source,
        precision="int8",
        graph_by="kiosk 1",
        pooling=replace(model.source.pooling, cut=4),
        default_prompt="query",
        reading=Reading(normalize=True),
        head=HEAD,
        outputs=Outputs(dense=True, sparse=Sparse(size=60)),
    )
    platform = replace(target.platform, libc="musl", isa=("avx2",), has=("node",), branch_protection=True)
    made = said(
        target=replace(target, platform=platform, extra={"kiosk": {"legs": 4}}),
        model=replace(model, source=source, cpu_file=Path("cpu.onnx")),
        runtime=replace(
            runtime,
            name="Kiosk Engine",
            changes=("pruned",),
            provider=ExecutionProvider(name="CUDAExecutionProvider", append="cuda"),
        ),
        runner=replace(
            runner,
            library="lib/libembed.so",
            serves=True,
            check_at_start=True,
            by_level=True,
            exact="engine 1",
            module="module/hooks.py",
            placement=PLACEMENT,
        ),
        made_by={
            "plugin": "edgepack-kiosk",
            "version": "1",
            "options": {},
            "passes": {"stamp": "x"},
            "delegates": [],
        },
        embedder="0" * 32,
    )
    # What the program itself gives is written when it can run.
    made["model"]["vectors_sha256"] = "0" * 64
    known = json.loads((ROOT / "docs/schemas/manifest.json").read_text())["properties"]
    assert made.keys() == known.keys()
    for section in ("target", "model", "runtime", "runner", "made_by", "visits"):
        assert made[section].keys() == known[section]["properties"].keys()
    assert made["target"]["platform"].keys() == known["target"]["properties"]["platform"]["properties"].keys()
