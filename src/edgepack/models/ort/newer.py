"""Models that the installed ONNX Runtime does not run, on the newest known release that does."""

import ctypes
import platform
from collections.abc import Mapping, Sequence
from ctypes import addressof, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import onnx

from edgepack.context import BuildContext
from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.fetch.wheels import wheel_file
from edgepack.models.ort.c_api import ARENA_ALLOCATOR, DEFAULT_MEMORY, LOG_FATAL, Api, OrtError
from edgepack.models.ort.memory import limited_memory, memory_for
from edgepack.models.ort.releases import StockRelease, lacking, running, stock_files, stock_releases
from edgepack.models.ort.session import open_session

Array = npt.NDArray[np.generic]
LIBRARY = "libonnxruntime.so*"
_TYPES: Mapping[int, type[np.generic]] = {
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    10: np.float16,
    11: np.float64,
}
"""ONNX's element types."""
_CODES = {np.dtype(kind): code for code, kind in _TYPES.items()}


class Named(NamedTuple):
    """An input or output of a session."""

    name: str


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
        content = model if isinstance(model, bytes) else model.read_bytes()
        try:
            return ReleaseSession(library, content, name=name or "the model")
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


class ReleaseSession:
    """A model on the library of a release, beside the installed one in the same process. Raises ``OrtError``."""

    def __init__(self, library: Path, model: bytes, *, name: str = "the model") -> None:
        self._called, self._limit = name, memory_for()
        self._api = Api(library)
        api = self._api
        self._content = ctypes.create_string_buffer(model, len(model))
        self._env = api.make("CreateEnv", LOG_FATAL, b"edgepack")
        self._memory = api.make("CreateCpuMemoryInfo", ARENA_ALLOCATOR, DEFAULT_MEMORY)
        options = api.make("CreateSessionOptions")
        api.call("SetSessionLogSeverityLevel", options, LOG_FATAL)
        with limited_memory(self._called, self._limit):
            self._session = api.make(
                "CreateSessionFromArray", self._env, addressof(self._content), len(model), options
            )
        api.release("SessionOptions", options)

    def get_inputs(self) -> Sequence[Named]:
        return self._named("Input")

    def get_outputs(self) -> Sequence[Named]:
        return self._named("Output")

    def run(self, names: Sequence[str], feed: Mapping[str, Array]) -> Sequence[Array]:
        """Values of these outputs for these inputs, in order."""
        # The C API does not miss an input that is not fed: it reads what is not there.
        if absent := [each.name for each in self.get_inputs() if each.name not in feed]:
            raise OrtError(f"the model has inputs that are not fed: {', '.join(absent)}")
        arrays = [np.ascontiguousarray(value) for value in feed.values()]
        values = (c_void_p * len(arrays))(*(self._tensor(each).value for each in arrays))
        outputs = (c_void_p * len(names))()
        asked = (c_char_p * len(feed))(*(name.encode() for name in feed))
        wanted = (c_char_p * len(names))(*(name.encode() for name in names))
        try:
            with limited_memory(self._called, self._limit):
                self._api.call(
                    "Run", self._session, None, asked, values, len(arrays), wanted, len(names), byref(outputs)
                )
                return [self._array(c_void_p(each)) for each in outputs]
        finally:
            for each in (*values, *outputs):
                self._api.release("Value", c_void_p(each))

    def _named(self, kind: str) -> list[Named]:
        api, found = self._api, []
        allocator = api.make("GetAllocatorWithDefaultOptions")
        for index in range(api.number(f"SessionGet{kind}Count", self._session)):
            pointer = api.make(f"SessionGet{kind}Name", self._session, index, allocator)
            found.append(Named(ctypes.string_at(pointer).decode()))
            api.call("AllocatorFree", allocator, pointer)
        return found

    def _tensor(self, array: Array) -> c_void_p:
        shape = (c_int64 * array.ndim)(*array.shape)
        return self._api.make(
            "CreateTensorWithDataAsOrtValue",
            self._memory,
            c_void_p(array.ctypes.data),
            c_size_t(array.nbytes),
            shape,
            array.ndim,
            _CODES[array.dtype],
        )

    def _array(self, value: c_void_p) -> Array:
        """A copy of what a value holds."""
        api = self._api
        info = api.make("GetTensorTypeAndShape", value)
        try:
            kind = api.number("GetTensorElementType", info, kind=c_int)
            rank = api.number("GetDimensionsCount", info)
            shape = (c_int64 * rank)()
            api.call("GetDimensions", info, shape, rank)
        finally:
            api.release("TensorTypeAndShapeInfo", info)
        made = np.empty(tuple(shape), _TYPES[kind])
        ctypes.memmove(made.ctypes.data, api.make("GetTensorMutableData", value).value or 0, made.nbytes)
        return made
