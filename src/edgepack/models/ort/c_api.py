"""ONNX Runtime through its C API: a model on another library than the installed package's.

The functions sit in a table, ``OrtApi``, that only ever grows (upstream guards the order with static_asserts), so that
version 5 of it serves every library since 1.5: https://onnxruntime.ai/docs/api/c/struct_ort_api.html
"""

import ctypes
import os
from collections.abc import Mapping, Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgepack.models.ort.memory import limited_memory, memory_for
from edgepack.models.ort.processor_time import Allowance, model_bytes, tokens_in

Array = npt.NDArray[np.generic]
API_VERSION = 5
LOG_FATAL = 4
ARENA_ALLOCATOR = 1
DEFAULT_MEMORY = 0
TENSOR_TYPES: Mapping[int, type[np.generic]] = {
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
_CODES = {np.dtype(kind): code for code, kind in TENSOR_TYPES.items()}

# name: (slot in OrtApi, argument types: p pointer, s string, z size_t, i int or enum); each answers with an OrtStatus*.
SLOTS: dict[str, tuple[int, str]] = {
    "CreateEnv": (3, "isp"),
    "CreateSession": (7, "pspp"),
    "CreateSessionFromArray": (8, "ppzpp"),
    "Run": (9, "ppppzpzp"),
    "CreateSessionOptions": (10, "p"),
    "SetSessionLogSeverityLevel": (22, "pi"),
    "SetIntraOpNumThreads": (24, "pi"),
    "SessionGetInputCount": (30, "pp"),
    "SessionGetOutputCount": (31, "pp"),
    "SessionGetInputTypeInfo": (33, "pzp"),
    "SessionGetOutputTypeInfo": (34, "pzp"),
    "SessionGetInputName": (36, "pzpp"),
    "SessionGetOutputName": (37, "pzpp"),
    "CreateTensorWithDataAsOrtValue": (49, "ppzpzip"),
    "GetTensorMutableData": (51, "pp"),
    "CastTypeInfoToTensorInfo": (55, "pp"),
    "GetTensorElementType": (60, "pp"),
    "GetDimensionsCount": (61, "pp"),
    "GetDimensions": (62, "ppz"),
    "GetTensorTypeAndShape": (65, "pp"),
    "CreateCpuMemoryInfo": (69, "iip"),
    "AllocatorFree": (76, "pp"),
    "GetAllocatorWithDefaultOptions": (78, "p"),
}
TYPES = {"p": c_void_p, "s": c_char_p, "z": c_size_t, "i": c_int}
GET_ERROR_MESSAGE = 2
RELEASE_STATUS = 93
RELEASE = {
    "Env": 92,
    "MemoryInfo": 94,
    "Session": 95,
    "Value": 96,
    "TypeInfo": 98,
    "TensorTypeAndShapeInfo": 99,
    "SessionOptions": 100,
}


class OrtError(Exception):
    """Refusal of ONNX Runtime, in its words."""


class _ApiBase(ctypes.Structure):
    _fields_ = (
        ("get_api", CFUNCTYPE(c_void_p, ctypes.c_uint32)),
        ("get_version_string", CFUNCTYPE(c_char_p)),
    )


class Api:
    """The function table of a library; ``api.call("Name", …)`` raises ``OrtError`` for a bad status."""

    def __init__(self, library: os.PathLike[str] | str) -> None:
        try:
            self._library = ctypes.CDLL(os.fspath(library))
            get_api_base = self._library.OrtGetApiBase
        except (OSError, AttributeError) as error:
            raise OrtError(f"cannot load the library: {error}") from error
        get_api_base.restype = POINTER(_ApiBase)
        base = get_api_base().contents
        self.version = base.get_version_string().decode()
        # Asked first: a library that is too old for the version says so on standard error by itself.
        minor = self.version.split(".")[1]
        table = base.get_api(API_VERSION) if not minor.isdigit() or int(minor) >= API_VERSION else None
        if not table:
            raise OrtError(f"ONNX Runtime {self.version} does not offer version {API_VERSION} of its C API")
        last = max(*(slot for slot, _ in SLOTS.values()), *RELEASE.values())
        slots = [slot or 0 for slot in (c_void_p * (last + 1)).from_address(table)]
        self._message = CFUNCTYPE(c_char_p, c_void_p)(slots[GET_ERROR_MESSAGE])
        self._release_status = CFUNCTYPE(None, c_void_p)(slots[RELEASE_STATUS])
        self._calls = {
            name: CFUNCTYPE(c_void_p, *(TYPES[letter] for letter in letters))(slots[slot])
            for name, (slot, letters) in SLOTS.items()
        }
        self._releases = {name: CFUNCTYPE(None, c_void_p)(slots[slot]) for name, slot in RELEASE.items()}

    def call(self, name: str, *arguments: object) -> None:
        status = self._calls[name](*arguments)
        if status:
            message = self._message(status).decode("utf-8", "replace")
            self._release_status(status)
            raise OrtError(message)

    def make(self, name: str, *arguments: object) -> c_void_p:
        """Call a function whose last parameter receives a pointer, and return that."""
        made = c_void_p()
        self.call(name, *arguments, byref(made))
        return made

    def number(self, name: str, *arguments: object, kind: type[c_size_t] | type[c_int] = c_size_t) -> int:
        """Call a function whose last parameter receives a number, and return that."""
        made = kind()
        self.call(name, *arguments, byref(made))
        return int(made.value)

    def release(self, kind: str, pointer: c_void_p) -> None:
        if pointer:
            self._releases[kind](pointer)
            pointer.value = None


class Named(NamedTuple):
    """An input or output of a session."""

    name: str
    dtype: type[np.generic] | None = None
    """``None``: NumPy does not have it, or it is no tensor."""


class Session:
    """A model, as a file or its bytes, on a library of ONNX Runtime.

    Raises ``OrtError``, and ``ModelError`` where it takes more memory than there is.
    """

    def __init__(
        self,
        library: os.PathLike[str] | str,
        model: Path | bytes,
        *,
        name: str = "the model",
        threads: int = 0,
    ) -> None:
        """``threads``: 0 for as many as there are cores."""
        self._called, self._limit = name, memory_for()
        self._allowance = Allowance(model_bytes(model))
        self._api = api = Api(library)
        self.runtime_version = api.version
        self._env = api.make("CreateEnv", LOG_FATAL, b"edgepack")
        self._memory = api.make("CreateCpuMemoryInfo", ARENA_ALLOCATOR, DEFAULT_MEMORY)
        options = api.make("CreateSessionOptions")
        try:
            api.call("SetSessionLogSeverityLevel", options, LOG_FATAL)
            api.call("SetIntraOpNumThreads", options, threads)
            with limited_memory(name, self._limit, self._allowance):
                self._session = self._create(model, options)
        finally:
            api.release("SessionOptions", options)

    def _create(self, model: Path | bytes, options: c_void_p) -> c_void_p:
        if isinstance(model, bytes):
            return self._api.make("CreateSessionFromArray", self._env, model, len(model), options)
        return self._api.make("CreateSession", self._env, os.fsencode(model), options)

    def get_inputs(self) -> Sequence[Named]:
        return self._named("Input")

    def get_outputs(self) -> Sequence[Named]:
        return self._named("Output")

    def run(self, names: Sequence[str], feed: Mapping[str, Array]) -> Sequence[Array]:
        """Values of these outputs for these inputs, in order."""
        # The C API does not miss an input that is not fed: it reads what is not there.
        if absent := [each.name for each in self.get_inputs() if each.name not in feed]:
            raise OrtError(f"the model has inputs that are not fed: {', '.join(absent)}")
        self._allowance.for_tokens(tokens_in(feed))
        arrays = [np.ascontiguousarray(value) for value in feed.values()]
        values = (c_void_p * len(arrays))(*(self._tensor(each).value for each in arrays))
        outputs = (c_void_p * len(names))()
        asked = (c_char_p * len(feed))(*(name.encode() for name in feed))
        wanted = (c_char_p * len(names))(*(name.encode() for name in names))
        try:
            with limited_memory(self._called, self._limit, self._allowance):
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
            found.append(Named(ctypes.string_at(pointer).decode(), self._dtype(kind, index)))
            api.call("AllocatorFree", allocator, pointer)
        return found

    def _dtype(self, kind: str, index: int) -> type[np.generic] | None:
        info = self._api.make(f"SessionGet{kind}TypeInfo", self._session, index)
        try:
            tensor = self._api.make("CastTypeInfoToTensorInfo", info)  # belongs to info
            code = self._api.number("GetTensorElementType", tensor, kind=c_int) if tensor else 0
            return TENSOR_TYPES.get(code)
        finally:
            self._api.release("TypeInfo", info)

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
        made = np.empty(tuple(shape), TENSOR_TYPES[kind])
        ctypes.memmove(made.ctypes.data, api.make("GetTensorMutableData", value).value or 0, made.nbytes)
        return made
