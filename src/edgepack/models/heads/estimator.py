"""A trained classifier of scikit-learn, or SetFit's own of PyTorch, out of a pickle, without these, and without running anything that it names.

joblib writes a pickle in which the numbers of each array follow the object that describes it. A pickle may call any function of any
module; this reader knows the few classes of linear classifiers, of arrays and of tensors, in forms of its own that only hold attributes,
and refuses all others.
"""

import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.heads.storage import parameter_of, storage_of, tensor_of

LARGEST = 500_000_000
"""Bytes; a head of a thousand labels for vectors of 4,096 numbers is 33 MB."""
LOGISTIC, ONE_VS_REST, MULTI_OUTPUT = "LogisticRegression", "OneVsRestClassifier", "MultiOutputClassifier"
SETFIT, LINEAR = "SetFitHead", "Linear"
CLASSES: Mapping[str, tuple[str, ...]] = {
    LOGISTIC: ("sklearn.linear_model._logistic", "sklearn.linear_model.logistic"),
    ONE_VS_REST: ("sklearn.multiclass",),
    MULTI_OUTPUT: ("sklearn.multioutput",),
    SETFIT: ("setfit.modeling",),
    LINEAR: ("torch.nn.modules.linear",),
    "LabelBinarizer": ("sklearn.preprocessing._label", "sklearn.preprocessing.label"),
}
"""Classes whose attributes are read → the modules that they are in, new and old."""
ARRAYS = ("numpy.core.multiarray", "numpy._core.multiarray")
NUMBERS = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1")
_DAMAGED = "the file is damaged or was not downloaded whole; fetch the model again"


class _ForeignNameError(Exception):
    """A name that no linear classifier's pickle needs."""


class Estimator:
    """An object of one of ``CLASSES``: its attributes are those of its library."""

    kind = ""

    def get(self, name: str) -> Any:
        """An attribute. Raises ``ValueError`` where it is missing: the classifier was not fitted."""
        # Not the object's own way to look it up, which a pickle may have covered.
        found = object.__getattribute__(self, "__dict__")
        if name not in found:
            raise ValueError(f"no {name}")
        return found[name]


_ESTIMATORS = {name: type(name, (Estimator,), {"kind": name}) for name in CLASSES}


class _Type:
    """A number's type, as NumPy writes it down: its name, then its byte order."""

    def __init__(self, name: Any, *_rest: Any) -> None:
        self.name, self.order, self.fields = str(name), "=", False

    def __setstate__(self, state: Any) -> None:
        self.order = str(state[1])
        self.fields = state[3] is not None or state[4] is not None

    @property
    def whole(self) -> np.dtype[Any]:
        """Raises ``ValueError`` for what holds no plain numbers or texts."""
        plain = self.name in NUMBERS or (self.name[:1] == "U" and self.name[1:].isdigit())
        if not plain or self.fields or self.order not in "<>=|":
            raise ValueError(f"an array of {self.name}")
        return np.dtype(self.order + self.name)


class _Array:
    """NumPy's own way to write an array down: an empty one, and its state."""

    def __init__(self, *_rest: Any) -> None:
        self.made: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        _version, shape, kind, fortran, content = state
        if kind.name in ("O", "O8"):
            self.made = np.array(content, dtype=object).reshape(_shape(shape))
            return
        self.made = _shaped(np.frombuffer(content, kind.whole), shape, "F" if fortran else "C")


class _Wrapper:
    """joblib's description of an array, whose numbers follow it in the file."""

    def read(self, stream: BinaryIO) -> np.ndarray:
        said = object.__getattribute__(self, "__dict__")
        kind, shape = said["dtype"], _shape(said["shape"])
        if kind.name in ("O", "O8"):
            return np.asarray(_value(_Unpickler(stream).load()), dtype=object).reshape(shape)
        if "numpy_array_alignment_bytes" in said:
            stream.read(stream.read(1)[0])
        dtype = kind.whole
        content = stream.read(_bounded(prod(shape) * dtype.itemsize))
        return _shaped(np.frombuffer(content, dtype), shape, "F" if said["order"] == "F" else "C")


def read_estimator(path: Path) -> Estimator:
    """A pickled classifier. Raises ``ModelError`` and ``UnsupportedModelError``."""
    try:
        _bounded(path.stat().st_size)
        with path.open("rb") as stream:
            made = _Unpickler(stream).load()
    except _ForeignNameError as error:
        raise UnsupportedModelError(
            f"{path.name} names {error}, which is no linear classifier; nothing of it was run",
            hint="edgepack reads heads that are a LogisticRegression, also in a OneVsRestClassifier or a MultiOutputClassifier, or a SetFitHead",
        ) from error
    except Exception as error:  # a damaged pickle raises what its bytes lead to
        raise ModelError(f"{path.name} cannot be read: {type(error).__name__}", hint=_DAMAGED) from error
    if not isinstance(made, Estimator):
        raise ModelError(f"{path.name} holds no classifier", hint=_DAMAGED)
    return made


class _Unpickler(pickle._Unpickler):
    """Python's own: that of C makes room for the highest number that a pickle says, and takes no array out of its midst."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream)
        self._stream = stream

    def find_class(self, module: str, name: str) -> Any:
        known: dict[tuple[str, str], Callable[..., Any]] = {
            ("joblib.numpy_pickle", "NumpyArrayWrapper"): _Wrapper,
            ("numpy", "ndarray"): _Array,
            ("numpy", "dtype"): _Type,
            ("_codecs", "encode"): _encoded,
            ("collections", "OrderedDict"): OrderedDict,
            ("torch", "device"): str,
            ("torch.storage", "_load_from_bytes"): storage_of,
            ("torch._utils", "_rebuild_tensor_v2"): tensor_of,
            ("torch._utils", "_rebuild_parameter"): parameter_of,
            **{(place, "_reconstruct"): _Array for place in ARRAYS},
            **{(place, "scalar"): _scalar for place in ARRAYS},
            **{(place, kind): _ESTIMATORS[kind] for kind, places in CLASSES.items() for place in places},
        }
        if (module, name) not in known:
            raise _ForeignNameError(f"{module}.{name}")
        return known[module, name]

    def load_build(self) -> None:
        pickle._Unpickler.load_build(self)  # type: ignore[attr-defined]
        top = self.stack[-1]  # type: ignore[attr-defined]
        if isinstance(top, _Wrapper):
            self.stack[-1] = top.read(self._stream)  # type: ignore[attr-defined]

    dispatch = {**pickle._Unpickler.dispatch, pickle.BUILD[0]: load_build}  # type: ignore[dict-item] # noqa: RUF012


def array_of(value: Any) -> np.ndarray:
    """An attribute that has to be an array. Raises ``ValueError``."""
    found = _value(value)
    if not isinstance(found, np.ndarray):
        raise ValueError("no array")
    return found


def _value(value: Any) -> Any:
    return value.made if isinstance(value, _Array) else value


def _encoded(text: Any, encoding: Any) -> bytes:
    """Bytes, as Python 2's protocol writes them."""
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError("no bytes")
    return text.encode("latin1")


def _scalar(kind: _Type, content: Any) -> Any:
    return np.frombuffer(content, kind.whole)[0].item()


def _shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, tuple) or not all(type(each) is int and each >= 0 for each in shape):
        raise ValueError("no shape")
    return shape


def _shaped(flat: np.ndarray, shape: Any, order: str) -> np.ndarray:
    return flat.reshape(_shape(shape), order=order)  # type: ignore[call-overload, no-any-return]


def _bounded(size: int) -> int:
    if size > LARGEST:
        raise ValueError(f"{size} bytes")
    return size
