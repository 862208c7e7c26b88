"""Models that the installed ONNX Runtime does not run, on the newest known release that does."""

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import onnx

from edgepack.context import BuildContext
from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.fetch.wheels import wheel_file
from edgepack.models.ort.c_api import Array, Named, OrtError, Session
from edgepack.models.ort.releases import StockRelease, lacking, running, stock_files, stock_releases
from edgepack.models.ort.session import open_session

LIBRARY = "libonnxruntime.so*"


class AnySession(Protocol):
    """Methods of a session that are used here: onnxruntime's ``InferenceSession`` is one."""

    def get_inputs(self) -> Sequence[Named]: ...

    def get_outputs(self) -> Sequence[Named]: ...

    def run(self, names: Sequence[str], feed: Mapping[str, Array]) -> Sequence[Array]: ...


def session_for(
    model: Path | bytes, *, name: str | None = None, context: BuildContext | None = None
) -> AnySession:
    """A session of the installed ONNX Runtime, or, for an ONNX model that it has no operators for, of a newer release's wheel.

    Without ``context`` nothing is fetched. Raises as ``open_session`` does, where no known release runs the model.
    """
    try:
        session: AnySession = open_session(model, name=name)
    except (ModelError, UnsupportedModelError) as refusal:
        newer = _newer(model) if context else None
        if context is None or newer is None:
            raise
        context.note(f"ONNX Runtime {newer.version} runs what {version('onnxruntime')} does not")
        library = wheel_file(stock_files(newer.wheels[platform.machine()], context=context), LIBRARY)
        try:
            return Session(library, model, name=name or "the model")
        except OrtError as error:
            raise ModelError(
                f"{refusal.message}; {newer.version} does not load it either: {error}",
                hint="the file is damaged; fetch the model again",
            ) from error
    return session


def _newer(model: Path | bytes) -> StockRelease | None:
    """The newest release that runs what the installed one lacks operators for."""
    if isinstance(model, Path) and model.suffix == ".ort":
        return None
    try:
        loaded = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(str(model))
    except Exception:  # protobuf's own class for what is no model at all
        return None
    installed = next((each for each in stock_releases() if each.version == version("onnxruntime")), None)
    if installed is None or not lacking(loaded, installed):
        return None
    found = [each for each in running(loaded) if platform.machine() in each.wheels]
    return found[-1] if found else None
