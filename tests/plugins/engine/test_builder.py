"""What the builder of the engine takes and refuses, and that its plan is made once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.families import write_family

from edgepack.errors import TargetError, UsageError
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.model import Pooling
from edgepack.records.outputs import MultiVector, Outputs, Side
from edgepack.records.target import Target
from edgepack.targets import built_in_targets, read_target
from edgepack_engine.builder import EngineBuilder, create_builder, longest_of, sources
from edgepack_windows import encoders as windows

WIDE: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 128}


def target(*overrides: str) -> Target:
    file = next(file for file in built_in_targets() if file.name == "linux-x86-fast.toml")
    return read_target(file, origin="edgepack", overrides=overrides)


def test_a_model_is_prepared_once(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_family(tmp_path, "bert", std=0.1, **WIDE)
    model = create_builder(target(), context).prepare_model(source)
    assert (model.format, model.precision, model.needs, model.batch_dependent) == (
        "plan",
        "int8",
        None,
        False,
    )
    assert model.oracle is not None
    assert model.oracle.suffix == ".onnx"
    assert model.file.read_bytes()[:8] == b"EDGEPLN2"
    assert create_builder(target(), context).prepare_model(source).file == model.file
    other = replace(source, pooling=Pooling(mode="cls"))
    assert create_builder(target(), context).prepare_model(other).file != model.file


def test_queries_that_are_filled_up_may_be_longer_than_texts(tmp_path: Path) -> None:
    source, _ = write_family(tmp_path, "bert", **WIDE)
    assert longest_of(source) == source.max_length == 16
    query, document = Side(length=20, least=32), Side(length=12)
    vectors = MultiVector(dense=(), dimension=64, query=query, document=document)
    assert longest_of(replace(source, outputs=Outputs(multi_vector=vectors))) == 32


def test_only_programs_for_steps_that_are_seldom_have_them() -> None:
    usual, others = (dict(sources(seldom=seldom)) for seldom in (False, True))
    assert {"each.cc"} == others.keys() - usual.keys()
    assert {"no_each.cc"} == usual.keys() - others.keys()


BY_TENSOR = '{pass = "fuse"}, {pass = "int8-dynamic", activations = "tensor"}'


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        ("fp32", "not recipe fp32 (it has no pass int8-dynamic)"),
        ("fp16", "not recipe fp16 (it has no pass int8-dynamic)"),
        ("half-fused", "not recipe half-fused (pass half-fused)"),
        ("int4", "not recipe int4 (pass int4)"),
        ("int8-near", "not recipe int8-near (pass int8-weights)"),
        ("int8-fast", "not recipe int8-fast (pass int8-static)"),
        ("int8-dynamic", "not recipe int8-dynamic (int8-dynamic by tensor)"),
        (f"[{BY_TENSOR}]", "not its recipe (int8-dynamic by tensor)"),
    ],
)
def test_an_unfit_recipe_is_refused_before_there_is_a_model(
    context: HostContext, recipe: str, why: str
) -> None:
    with pytest.raises(TargetError) as caught:
        create_builder(target(f"model.recipe={recipe}"), context)
    assert caught.value.message == (
        f"target linux-x86-fast: the engine takes int8 weights and activations by token, {why}"
    )
    assert "--recipe int8" in str(caught.value.hint)


@pytest.mark.parametrize("recipe", ["int8", "int8-download", "int8-smallest", '[{pass = "int8-dynamic"}]'])
def test_recipes_by_token_are_taken(context: HostContext, recipe: str) -> None:
    assert create_builder(target(f"model.recipe={recipe}"), context)


PLUGIN = """
from edgepack import api

@api.hookimpl
def edgepack_specs():
    return [api.Spec(axis="pass", name="stamp", summary="", make=lambda: lambda model, note: model, revision="1")]
"""


def test_what_a_pass_of_another_plugin_makes_is_known_afterwards(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    info = tmp_path / "edgepack_stamp-1.2.dist-info"
    info.mkdir()
    (tmp_path / "edgepack_stamp.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: edgepack-stamp\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[edgepack]\nstamp = edgepack_stamp\n")
    assert create_builder(target('model.recipe=[{pass = "stamp"}]'), context)
    with pytest.raises(TargetError, match=r"\(pass int4\)"):
        create_builder(target('model.recipe=[{pass = "stamp"}, {pass = "int4"}]'), context)


def test_devices_of_another_system_are_refused(context: HostContext) -> None:
    with pytest.raises(
        TargetError, match="builder engine makes bundles for linux and macos, not for windows"
    ):
        create_builder(replace(target(), platform=replace(target().platform, os="windows")), context)


def test_what_is_compiled() -> None:
    names = [name for name, _ in sources()]
    assert {"session.h", "session.cc", "kernels.inc", "kernels_avx512.cc"} <= set(names)


def test_libembed_is_an_option_where_there_are_shared_libraries(context: HostContext) -> None:
    made = create_builder(target("library=true"), context)
    assert isinstance(made, EngineBuilder) and made.library
    assert not create_builder(target(), context).library  # type: ignore[attr-defined]
    musl = replace(made.target.platform, glibc=None, libc="musl")
    assert create_builder(replace(made.target, platform=musl), context)
    with pytest.raises(UsageError, match="no shared libraries for devices with musl"):
        create_builder(replace(made.target, platform=replace(musl, arch="armv7l")), context)
    macos = load_plugins().target("macos-arm64")
    with pytest.raises(UsageError, match="no shared libraries for macOS"):
        create_builder(replace(macos, options={**macos.options, "library": True}), context)
    with pytest.raises(TargetError, match="polite = true is for Linux"):
        create_builder(replace(macos, options={**macos.options, "polite": True}), context)


@pytest.mark.parametrize("name", ["linux-armv7-fast", "linux-riscv64-fast", "macos-arm64", "macos-x64"])
def test_it_builds_for_other_processors(context: HostContext, name: str) -> None:
    assert create_builder(load_plugins().target(name), context)


@pytest.mark.parametrize(("how", "said"), [("int8", ""), ("float", ", attention in floats")])
def test_each_attention_is_an_arithmetic_of_its_own(context: HostContext, how: str, said: str) -> None:
    builder = create_builder(load_plugins().target("linux-x86-fast", [f"attention={how}"]), context)
    assert isinstance(builder, EngineBuilder)
    assert builder.arithmetic == f"edgepack-engine 1{said}", "an index of one does not serve the other"


def test_windows_has_a_builder_of_its_own(context: HostContext) -> None:
    with pytest.raises(
        TargetError, match="builder engine makes bundles for linux and macos, not for windows"
    ):
        create_builder(load_plugins().target("windows-x64-fast"), context)
    assert windows.create_engine(load_plugins().target("windows-x64-fast", ["attention=float"]), context)
    with pytest.raises(TargetError, match="builder windows-engine makes bundles for windows, not for linux"):
        windows.create_engine(load_plugins().target("windows-x64-fast", ["platform.os=linux"]), context)
    with pytest.raises(TargetError, match="by token, not recipe fp16") as caught:
        windows.create_engine(load_plugins().target("windows-x64-fast", ["model.recipe=fp16"]), context)
    assert "--target windows-x64 takes any recipe" in str(caught.value.hint)
