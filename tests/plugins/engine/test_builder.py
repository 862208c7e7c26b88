"""What the builder of the engine takes and refuses, and that its plan is made once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.families import write_family

from edgepack.errors import TargetError, UnsupportedModelError
from edgepack.plugins.context import HostContext
from edgepack.records.model import Pooling
from edgepack.records.target import Target
from edgepack.targets import built_in_targets, read_target
from edgepack_engine.builder import create_builder, sources

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
    assert model.file.read_bytes()[:8] == b"EDGEPLN1"
    assert create_builder(target(), context).prepare_model(source).file == model.file
    other = replace(source, pooling=Pooling(mode="cls"))
    assert create_builder(target(), context).prepare_model(other).file != model.file


def test_a_vector_that_more_than_pooling_makes_is_refused(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_family(tmp_path, "bert", **WIDE)
    joined = replace(source, pooling=Pooling(mode="cls", joined=("mean",)))
    with pytest.raises(UnsupportedModelError, match=r"no pooling as cls \+ mean pooling") as caught:
        create_builder(target(), context).prepare_model(joined)
    assert "--target linux-x86" in str(caught.value.hint)


def test_a_recipe_that_is_not_int8_is_refused(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_family(tmp_path, "bert", **WIDE)
    with pytest.raises(UnsupportedModelError, match="the engine has no step for operator"):
        create_builder(target("model.recipe=int4"), context).prepare_model(source)


def test_devices_of_another_system_are_refused(context: HostContext) -> None:
    with pytest.raises(TargetError, match="builder engine makes bundles for linux, not for windows"):
        create_builder(replace(target(), platform=replace(target().platform, os="windows")), context)


def test_what_is_compiled() -> None:
    names = [name for name, _ in sources()]
    assert {"session.h", "session.cc", "kernels.inc", "kernels_avx512.cc"} <= set(names)
