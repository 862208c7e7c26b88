"""ONNX Runtime through its C API: one session, int token ids in, float32 vectors out.

Standard library only, and nothing of edgepack: this file also runs by itself under ``python -I -S``.

The functions sit in a table, ``OrtApi``, that only ever grows (upstream guards the order with static_asserts), so that
version 5 of it serves every library since 1.5: https://onnxruntime.ai/docs/api/c/struct_ort_api.html
"""

from __future__ import annotations

import ctypes
import mmap
import os
from array import array
from collections.abc import Sequence
from ctypes import CFUNCTYPE, POINTER, addressof, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

API_VERSION = 5
LOG_FATAL = 4
ARENA_ALLOCATOR = 1
DEFAULT_MEMORY = 0
FLOAT32, INT32, INT64 = 1, 6, 7
TYPE_CODES = {INT32: "i", INT64: "q"}

# name: (slot in OrtApi, argument types: p pointer, s string, z size_t, i int or enum); each answers with an OrtStatus*.
SLOTS: dict[str, tuple[int, str]] = {
    "CreateEnv": (3, "isp"),
    "CreateSession": (7, "pspp"),
    "CreateSessionFromArray": (8, "ppzpp"),
    "Run": (9, "ppppzpzp"),
    "CreateSessionOptions": (10, "p"),
    "DisableMemPattern": (17, "p"),
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
    "AddSessionConfigEntry": (130, "pss"),
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
        last = max(slot for slot, _ in SLOTS.values())
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


class Session:
    """A text-embedding model on an ONNX Runtime library.

    ``model`` is a ``.ort`` file, which is mapped and used in place, or any other file that the library can read.
    Inputs are integers [batch, sequence]; the first output must be float32 [batch, dimension]. Raises ``OrtError``.
    """

    def __init__(
        self, library: os.PathLike[str] | str, model: os.PathLike[str] | str, threads: int = 1
    ) -> None:
        self._api = Api(library)
        self._mapping: mmap.mmap | None = None
        self._bytes: ctypes.Array[ctypes.c_char] | None = None
        self._env, self._options, self._session, self._memory = (c_void_p() for _ in range(4))
        self.runtime_version = self._api.version
        try:
            self._open(os.fspath(model), threads)
            self.inputs, self._codes = self._describe_inputs()
            self.output, self.output_dimension = self._describe_output()
        except BaseException:
            self.close()
            raise

    def _open(self, model: str, threads: int) -> None:
        api = self._api
        self._env = api.make("CreateEnv", LOG_FATAL, b"embed")
        self._memory = api.make("CreateCpuMemoryInfo", ARENA_ALLOCATOR, DEFAULT_MEMORY)
        self._options = api.make("CreateSessionOptions")
        api.call("SetSessionLogSeverityLevel", self._options, LOG_FATAL)
        api.call("SetIntraOpNumThreads", self._options, threads)
        # As the program has it: a pattern for each shape of a batch is memory that only grows.
        api.call("DisableMemPattern", self._options)
        # A thread that waits for work must not burn a device's battery.
        self._configure("session.intra_op.allow_spinning", "0")
        if not model.endswith(".ort"):
            self._session = api.make("CreateSession", self._env, os.fsencode(model), self._options)
            return
        self._configure("session.load_model_format", "ORT")
        self._configure("session.use_ort_model_bytes_directly", "1")
        self._configure("session.use_ort_model_bytes_for_initializers", "1")
        content = self._map_file(model)
        # addressof and not ctypes.cast: a cast pointer keeps the mapping alive for ever.
        self._session = api.make(
            "CreateSessionFromArray", self._env, addressof(content), len(content), self._options
        )

    def _configure(self, key: str, value: str) -> None:
        self._api.call("AddSessionConfigEntry", self._options, key.encode(), value.encode())

    def _map_file(self, path: str) -> ctypes.Array[ctypes.c_char]:
        try:
            with Path(path).open("rb") as stream:
                # A private copy-on-write mapping: ctypes takes only writable memory; nobody writes.
                mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            raise OrtError(f"cannot map {path}: {error}") from error
        self._mapping = mapped
        self._bytes = (ctypes.c_char * len(mapped)).from_buffer(mapped)
        return self._bytes

    def _describe_inputs(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the model's inputs, and the array type code of each."""
        names, codes = [], []
        for index in range(self._api.number("SessionGetInputCount", self._session)):
            name = self._name("SessionGetInputName", index)
            kind, _ = self._tensor_type("SessionGetInputTypeInfo", index)
            if kind not in TYPE_CODES:
                raise OrtError(f"input {name} of the model is not int64 or int32")
            names.append(name)
            codes.append(TYPE_CODES[kind])
        return tuple(names), tuple(codes)

    def _describe_output(self) -> tuple[str, int | None]:
        """Name and width of the first output; the width is None where the model does not say it."""
        if not self._api.number("SessionGetOutputCount", self._session):
            raise OrtError("the model has no output")
        name = self._name("SessionGetOutputName", 0)
        kind, shape = self._tensor_type("SessionGetOutputTypeInfo", 0)
        if kind != FLOAT32 or len(shape) != 2:
            raise OrtError(f"output {name} of the model is not float32 [batch, dimension]")
        return name, shape[1] if shape[1] > 0 else None

    def _name(self, function: str, index: int) -> str:
        allocator = self._api.make("GetAllocatorWithDefaultOptions")
        pointer = self._api.make(function, self._session, index, allocator)
        try:
            return ctypes.string_at(pointer).decode()
        finally:
            self._api.call("AllocatorFree", allocator, pointer)

    def _tensor_type(self, function: str, index: int) -> tuple[int, list[int]]:
        info = self._api.make(function, self._session, index)
        try:
            tensor = self._api.make("CastTypeInfoToTensorInfo", info)  # belongs to info
            if not tensor:
                raise OrtError("an input or output of the model is not a tensor")
            return self._type_and_shape(tensor)
        finally:
            self._api.release("TypeInfo", info)

    def _type_and_shape(self, tensor: c_void_p) -> tuple[int, list[int]]:
        kind = self._api.number("GetTensorElementType", tensor, kind=c_int)
        rank = self._api.number("GetDimensionsCount", tensor)
        shape = (c_int64 * rank)()
        self._api.call("GetDimensions", tensor, shape, rank)
        return kind, list(shape)

    def run(
        self,
        ids: Sequence[Sequence[int]],
        mask: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None = None,
    ) -> list[array[float]]:
        """Vectors, float32 [dimension] each, of a batch of token ids; all rows must be equally long.

        ``types`` are token type ids; zeros where the model wants them and none are given.
        """
        length = len(ids[0]) if ids else 0
        feeds = {"input_ids": ids, "attention_mask": mask}
        if types is not None:
            feeds["token_type_ids"] = types
        elif "token_type_ids" in self.inputs:
            feeds["token_type_ids"] = [[0] * length] * len(ids)
        # The C API does not miss an input that is not fed: it reads what is not there.
        if absent := [name for name in self.inputs if name not in feeds]:
            raise OrtError(f"the model wants {', '.join(absent)}, which a text does not give")
        if not length or any(len(row) != length for name in self.inputs for row in feeds[name]):
            raise OrtError("the rows of a batch must be equally long and not empty")
        if any(len(feeds[name]) != len(ids) for name in self.inputs):
            raise OrtError("token ids, mask and types must have as many rows as each other")
        columns = [
            array(code, (number for row in feeds[name] for number in row))
            for name, code in zip(self.inputs, self._codes, strict=True)
        ]
        return self._run(columns, len(ids), length)

    def _run(self, columns: list[array[int]], batch: int, length: int) -> list[array[float]]:
        if not self._session:
            raise OrtError("the session is closed")
        api, count = self._api, len(columns)
        shape = (c_int64 * 2)(batch, length)
        values = (c_void_p * count)()
        names = (c_char_p * count)(*(name.encode() for name in self.inputs))
        output_name = (c_char_p * 1)(self.output.encode())
        output = c_void_p()
        try:
            for index, column in enumerate(columns):
                values[index] = self._tensor(column, shape).value
            api.call("Run", self._session, None, names, values, count, output_name, 1, byref(output))
            return self._rows(output, batch)
        finally:
            for value in (*values, output.value):
                api.release("Value", c_void_p(value))

    def _tensor(self, column: array[int], shape: ctypes.Array[c_int64]) -> c_void_p:
        address, items = column.buffer_info()
        size = items * column.itemsize
        kind = INT64 if column.typecode == "q" else INT32
        return self._api.make(
            "CreateTensorWithDataAsOrtValue", self._memory, address, size, shape, len(shape), kind
        )

    def _rows(self, output: c_void_p, batch: int) -> list[array[float]]:
        info = self._api.make("GetTensorTypeAndShape", output)
        try:
            kind, shape = self._type_and_shape(info)
        finally:
            self._api.release("TensorTypeAndShapeInfo", info)
        if kind != FLOAT32 or len(shape) != 2 or shape[0] != batch:
            raise OrtError(f"the model gave a tensor of shape {shape}, not [{batch}, dimension]")
        data = ctypes.string_at(self._api.make("GetTensorMutableData", output), batch * shape[1] * 4)
        width = shape[1] * 4
        return [array("f", data[start : start + width]) for start in range(0, len(data), width)]

    def close(self) -> None:
        """Free everything; the session cannot be used afterwards."""
        self._api.release("Session", self._session)
        self._api.release("SessionOptions", self._options)
        self._api.release("MemoryInfo", self._memory)
        self._api.release("Env", self._env)
        # The array holds on to the mapping.
        self._bytes = self._mapping = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
