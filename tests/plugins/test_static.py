"""Tables of static embeddings, as they ship, and what their builder takes."""

import struct
from pathlib import Path

import numpy as np
import pytest
from tests.support.static_models import quantized, table, write_model2vec, write_module
from tests.support.tiny import write_model

from edgepack.errors import TargetError, UnsupportedModelError, UsageError
from edgepack.models.find.source import ingest
from edgepack.models.read.static import StaticTable
from edgepack.plugins.context import HostContext
from edgepack.records.target import Target
from edgepack.targets import built_in_targets, read_target
from edgepack_static.builder import StaticBuilder, create_builder
from edgepack_static.table import in_form, write_table


def target(*overrides: str, name: str = "linux-x86-static") -> Target:
    file = next(file for file in built_in_targets() if file.name == f"{name}.toml")
    return read_target(file, origin="edgepack", overrides=overrides)


@pytest.mark.parametrize(("form", "lost"), [("fp32", 0.0), ("fp16", 1e-3), ("int8", 0.02)])
def test_a_table_in_each_form(form: str, lost: float) -> None:
    vectors = table(50) * np.linspace(0.01, 30, 50, dtype=np.float32)[:, None]
    codes, scales = in_form(vectors, form)
    back = codes.astype(np.float32) * (1 if scales is None else scales[:, None])
    off = np.linalg.norm(back - vectors, axis=1) / np.linalg.norm(vectors, axis=1)
    assert off.max() <= lost
    assert codes.dtype.itemsize == {"fp32": 4, "fp16": 2, "int8": 1}[form]


def test_int8_of_int8_is_exact_and_rows_of_zeros_stay_so() -> None:
    whole = np.rint(table(9) * 30).astype(np.float32)
    whole[0, :2] = -128, 127
    codes, scales = in_form(whole, "int8")
    assert scales is None
    np.testing.assert_array_equal(codes, whole)
    vectors = table(3)
    vectors[1] = 0
    codes, scales = in_form(vectors, "int8")
    assert scales is not None
    assert not codes[1].any()
    assert np.abs(codes).max() == 127


def test_what_half_precision_does_not_hold_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="numbers up to 70000") as caught:
        in_form(np.full((2, 2), 70000, np.float32), "fp16")
    assert "--recipe fp32" in str(caught.value.hint)


def test_what_the_file_says(tmp_path: Path) -> None:
    tensors = quantized()
    made = StaticTable(
        vectors=tensors["embeddings"], rows=tensors["mapping"], scales=tensors["weights"], unknown=1
    )
    write_table(made, "int8", normalize=True, destination=tmp_path / "table.bin")
    content = (tmp_path / "table.bin").read_bytes()
    magic, size, width, rows, dimension, tokens, unknown, flags, row_bytes = struct.unpack_from(
        "<8sQ7I", content
    )
    assert (magic, size) == (b"EDGETAB1", len(content))
    assert (width, rows, dimension, tokens, unknown, flags, row_bytes) == (1, 4, 8, 10, 1, 15, 2)
    # Header, vectors, scales of rows, rows of tokens, scales of tokens: each from a multiple of 64 bytes on.
    assert len(content) == 5 * 64
    np.testing.assert_array_equal(np.frombuffer(content, "<u2", 10, 3 * 64), tensors["mapping"])
    np.testing.assert_array_equal(np.frombuffer(content, "<f4", 10, 4 * 64), tensors["weights"])


def test_a_model_is_prepared_without_onnx(tmp_path: Path, context: HostContext) -> None:
    source = ingest(str(write_model2vec(tmp_path / "model")), context=context)
    model = create_builder(target(), context).prepare_model(source)
    assert (model.format, model.precision, model.needs) == ("table", "fp16", None)
    again = create_builder(target("model.recipe=int8"), context).prepare_model(source)
    assert again.precision == "int8"
    assert again.file != model.file
    other = ingest(str(write_module(tmp_path / "other", normalize=False)), context=context)
    assert create_builder(target(), context).prepare_model(other).file != model.file


def test_a_transformer_is_refused(tmp_path: Path, context: HostContext) -> None:
    source = ingest(str(write_model(tmp_path / "model")), context=context)
    with pytest.raises(UnsupportedModelError, match="is not a static model") as caught:
        create_builder(target(), context).prepare_model(source)
    assert "--target linux-x86-min" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("model.recipe=int4",), "a table has no recipe 'int4'"),
        (('platform.arch="s390x"',), "linux on s390x"),
        (('platform.libc="musl"',), "with musl"),
        (('platform.os="web"',), "builder static makes bundles for linux, not for web"),
        (("runner=native",), "runner"),
    ],
)
def test_what_a_target_may_not_say(context: HostContext, overrides: tuple[str, ...], words: str) -> None:
    with pytest.raises((TargetError, UsageError), match=words):
        create_builder(target(*overrides), context)


def test_a_server_is_an_option(context: HostContext) -> None:
    for value in (True, False):
        builder = create_builder(target(f"serve={str(value).lower()}"), context)
        assert isinstance(builder, StaticBuilder) and builder.serve is value
