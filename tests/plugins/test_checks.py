"""Checks of whether model and runtime fit: edgepack's own, and plugins' that do right and wrong."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgepack.context import Extension
from edgepack.errors import MismatchError, PluginError
from edgepack.operators.fit import operators_fit
from edgepack.plugins.checks import require_fit
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.model import ModelSource, Pooling, PreparedModel
from edgepack.records.operators import Operator, Operators
from edgepack.records.runtime import RuntimeArtifact
from edgepack.records.target import ModelOptions, Platform, Target

ADD = Operators(kernels=frozenset({Operator(domain="ai.onnx", since=13, name="Add")}))
TARGET = Target(
    name="t", summary="", builder="b", platform=Platform(os="linux", arch="x86_64"), model=ModelOptions()
)


@pytest.fixture
def model(tmp_path: Path) -> PreparedModel:
    source = ModelSource(
        name="m", origin="", directory=tmp_path, weights=None, onnx=None, tokenizer=tmp_path, config={},
        pooling=Pooling(), max_length=8, dimension=2,
    )  # fmt: skip
    return PreparedModel(
        file=tmp_path / "m.onnx", format="onnx", precision="fp32", recipe="", needs=ADD, source=source, inputs=()
    )  # fmt: skip


def runtime(provides: Operators | None) -> RuntimeArtifact:
    return RuntimeArtifact(library=None, version="1", kind="full", provides=provides, toolchain="")


def test_operators_are_a_check_like_any_other(model: PreparedModel, context: HostContext) -> None:
    assert load_plugins().extensions("checks")["operators"].plugin == "edgepack"
    assert require_fit(model, runtime(ADD), TARGET, context=context) == ("operators",)
    with pytest.raises(
        MismatchError, match=r"\(check operators of edgepack\): the runtime lacks 1 "
    ) as caught:
        require_fit(model, runtime(Operators()), TARGET, context=context)
    assert str(caught.value.hint).startswith("builder b made both")


def test_what_a_plugins_check_refuses_is_not_said_to_be_the_builders_fault(
    model: PreparedModel, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = Extension(name="size", summary="", plugin="lark", identity="1", make=lambda: lambda *parts: ["too large"])  # fmt: skip
    monkeypatch.setattr(HostContext, "extensions", lambda self, axis: {"size": size})
    with pytest.raises(MismatchError, match=r"do not fit \(check size of lark\): too large$") as caught:
        require_fit(model, None, TARGET, context=context)
    assert caught.value.hint == (
        "check size of plugin lark refuses it; EDGEPACK_DISABLE_PLUGINS=lark builds without that plugin"
    )


@pytest.mark.parametrize("known", ["neither", "needs", "provides"])
def test_what_is_not_known_is_not_said_to_fit(model: PreparedModel, context: HostContext, known: str) -> None:
    one = model if known == "needs" else replace(model, needs=None)
    other = runtime(ADD if known == "provides" else None)
    assert operators_fit(one, other, TARGET) is None
    assert operators_fit(one, None, TARGET) is None
    assert require_fit(one, other, TARGET, context=context) == ()


def fails(model: PreparedModel, runtime: RuntimeArtifact | None, target: Target) -> list[str]:
    raise KeyError(target.name)


def ends(*parts: object) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (fails, "plugin kiosk failed in check paint: KeyError: 't'"),
        (ends, "plugin kiosk failed in check paint: it ended the program"),
        (lambda *parts: 5, "plugin kiosk: check paint returned 5, expected a list of sentences or None"),
        (lambda *parts: "red", "plugin kiosk: check paint returned 'red', expected a list of sentences or None"),
        (lambda *parts: [True], "plugin kiosk: check paint returned .True., expected a list"),
        (lambda *parts: (1 / 0 for _ in "x"), "plugin kiosk failed in check paint: ZeroDivisionError"),
        (list, "plugin kiosk failed in check paint: TypeError"),
    ],
)  # fmt: skip
def test_a_check_that_is_wrong_is_the_plugins_fault(
    model: PreparedModel,
    context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[..., Any],
    words: str,
) -> None:
    paint = Extension(name="paint", summary="", plugin="kiosk", identity="1", make=lambda: check)
    monkeypatch.setattr(HostContext, "extensions", lambda self, axis: {"paint": paint})
    with pytest.raises(PluginError, match=words):
        require_fit(model, None, TARGET, context=context)
