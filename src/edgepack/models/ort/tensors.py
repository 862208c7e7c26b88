"""The constants that a model's file holds, read without ONNX Runtime: what they are called and how many bytes each takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

from edgepack.errors import ModelError, reason_of
from edgepack.models.ort.canonical import IDENTIFIER, elements, session_in

ORT, ONNX = ".ort", ".onnx"


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A constant of a model."""

    name: str
    type: str
    """As ONNX calls it, in small letters: ``int8``, ``float``."""
    shape: tuple[int, ...]
    bytes: int
    """In the file; 0: it lies in another one."""


def tensors_of(file: Path) -> list[Tensor]:
    """The constants of a model's main graph, in ORT or ONNX format, by the file's name. Raises ``ModelError``."""
    try:
        found = list(_of_ort(file) if file.suffix == ORT else _of_onnx(file))
        if sum(each.bytes for each in found) > file.stat().st_size:
            raise ModelError("its tensors have more bytes than the file")
    # What readers of damaged files raise has no class in common.
    except Exception as error:
        raise ModelError(f"{file.name} cannot be read: {reason_of(error)}") from error
    return found


def is_ort(content: bytes | mmap) -> bool:
    """Whether this is the content of a file in ORT format."""
    return content[4:8] == IDENTIFIER


def tensors_in(content: bytes | mmap) -> Iterator[Tensor]:
    """The constants of the main graph, of the content of a file in ORT format. Raises anything where it is damaged."""
    if not is_ort(content):
        raise ModelError("it is not in ORT format")
    for tensor in elements(session_in(content).Model().Graph(), "Initializers"):
        yield Tensor(
            name=tensor.Name().decode(),
            type=_type(tensor.DataType()),
            # Of a damaged file's billions of dimensions, NumPy finds at once that they are not there.
            shape=tuple(map(int, tensor.DimsAsNumpy())) if tensor.DimsLength() else (),
            bytes=tensor.RawDataLength(),
        )


def _of_ort(file: Path) -> list[Tensor]:
    with file.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as content:
        return list(tensors_in(content))


def _of_onnx(file: Path) -> Iterator[Tensor]:
    import onnx

    for tensor in onnx.load(file, load_external_data=False).graph.initializer:
        outside = tensor.data_location == onnx.TensorProto.EXTERNAL
        yield Tensor(
            name=tensor.name,
            type=_type(tensor.data_type),
            shape=tuple(tensor.dims),
            bytes=0 if outside else tensor.ByteSize(),
        )


def _type(number: int) -> str:
    from onnx import TensorProto

    return TensorProto.DataType.Name(number).lower()
