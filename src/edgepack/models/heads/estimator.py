"""A trained classifier of scikit-learn, or SetFit's own of PyTorch, out of a pickle, without these, and without running anything that it names.

joblib writes a pickle in which the numbers of each array follow the object that describes it. This reader knows the few classes of linear
classifiers, of arrays and of tensors.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.heads.storage import STORAGES, parameter_of, storage_of, tensor_of
from edgepack.models.pickles.machine import ENCODE, STORAGE, WRAPPER
from edgepack.models.pickles.unpickled import DAMAGED, ForeignNameError, RebuiltObject, read_pickle

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
_KINDS = {f"{place}.{kind}": kind for kind, places in CLASSES.items() for place in places}
ARRAYS = ("numpy.core.multiarray", "numpy._core.multiarray")
NUMBERS = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1")
OBJECTS = ("O", "O8")


class Estimator:
    """An object of one of ``CLASSES``: its attributes are those of its library."""

    def __init__(self, kind: str, attributes: Mapping[str, Any]) -> None:
        self.kind, self._attributes = kind, attributes

    def get(self, name: str) -> Any:
        """An attribute: arrays and tensors as NumPy's. Raises ``ValueError`` where it is missing: the classifier was not fitted."""
        if name not in self._attributes:
            raise ValueError(f"no {name}")
        return _read(self._attributes[name])


def read_estimator(path: Path) -> Estimator:
    """A pickled classifier. Raises ``ModelError`` and ``UnsupportedModelError``."""
    try:
        made = _read(read_pickle(path, NAMES).document)
    except ForeignNameError as error:
        raise UnsupportedModelError(
            f"{path.name} names {error}, which is no linear classifier; nothing of it was run",
            hint="edgepack reads heads that are a LogisticRegression, also in a OneVsRestClassifier or a MultiOutputClassifier, or a SetFitHead",
        ) from error
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{path.name} cannot be read: {type(error).__name__}", hint=DAMAGED) from error
    if not isinstance(made, Estimator):
        raise ModelError(f"{path.name} holds no classifier", hint=DAMAGED)
    return made


def array_of(value: Any) -> np.ndarray:
    """An attribute that has to be an array. Raises ``ValueError``."""
    if not isinstance(value, np.ndarray):
        raise ValueError("no array")
    return value


def _read(value: Any) -> Any:
    """A value with the objects in it that are known here. Raises ``ValueError``, ``TypeError`` or ``KeyError``."""
    if isinstance(value, list | tuple):
        return [_read(each) for each in value]
    if isinstance(value, dict):
        return {key: _read(each) for key, each in value.items()}
    if not isinstance(value, RebuiltObject):
        return value
    if value.name in _KINDS:
        return Estimator(_KINDS[value.name], _attributes(value))
    return _FORMS[value.name](value) if value.name in _FORMS else None


def _attributes(made: RebuiltObject) -> Mapping[str, Any]:
    if not isinstance(made.state, dict) or not all(type(name) is str for name in made.state):
        return {}
    return made.state


def _wrapped(made: RebuiltObject) -> np.ndarray:
    """joblib's description of an array, with its numbers."""
    said = _attributes(made)
    shape, content = said["shape"], said["content"]
    if _name_of(said["dtype"]) in OBJECTS:
        return _objects(_flat(_read(content)), shape)
    return _shaped(content, said["dtype"], shape, fortran=said["order"] == "F")


def _array(made: RebuiltObject) -> np.ndarray:
    """NumPy's own way to write an array down: an empty one, and its state."""
    _version, shape, kind, fortran, content = made.state
    if _name_of(kind) in OBJECTS:
        return _objects(content, shape)
    return _shaped(content, kind, shape, fortran=fortran is True)


def _scalar(made: RebuiltObject) -> Any:
    kind, content = made.arguments
    return np.frombuffer(content, _type(kind))[0].item()


def _name_of(kind: Any) -> str:
    """A number's type, as NumPy writes it down."""
    if (
        not isinstance(kind, RebuiltObject)
        or kind.name != "numpy.dtype"
        or type(kind.arguments[0]) is not str
    ):
        raise ValueError("no type")
    return kind.arguments[0]


def _type(kind: Any) -> np.dtype[Any]:
    """Raises ``ValueError`` for what holds no plain numbers or texts."""
    name = _name_of(kind)
    plain = name in NUMBERS or (name[:1] == "U" and name[1:].isdecimal() and len(name) < 8)
    order = "="
    if kind.state is not None:
        _version, order, _subarray, names, fields, *_rest = kind.state
        plain = plain and names is None and fields is None
    if not plain or order not in ("<", ">", "=", "|"):
        raise ValueError(f"an array of {name[:20]}")
    return np.dtype(order + name)


def _shaped(content: Any, kind: Any, shape: Any, *, fortran: bool) -> np.ndarray:
    if type(content) is not bytes:
        raise ValueError("no bytes")
    return np.frombuffer(content, _type(kind)).reshape(_shape(shape), order="F" if fortran else "C")


def _objects(content: Any, shape: Any) -> np.ndarray:
    """Texts and numbers; nothing that holds others."""
    if not isinstance(content, list) or not all(type(each) in (str, int, float, bool) for each in content):
        raise ValueError("no objects")
    made = np.empty(len(content), dtype=object)
    made[:] = content
    return made.reshape(_shape(shape))


def _flat(found: Any) -> Any:
    return found.reshape(-1).tolist() if isinstance(found, np.ndarray) else found


def _shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, tuple) or len(shape) > 2 or not all(type(each) is int for each in shape):
        raise ValueError("no shape")
    if not all(each >= 0 for each in shape):
        raise ValueError("no shape")
    return shape


_FORMS: Mapping[str, Callable[[RebuiltObject], Any]] = {
    WRAPPER: _wrapped,
    **{f"{place}._reconstruct": _array for place in ARRAYS},
    **{f"{place}.scalar": _scalar for place in ARRAYS},
    STORAGE: lambda made: storage_of(made.arguments),
    "torch._utils._rebuild_tensor_v2": lambda made: tensor_of(*_arguments(made)),
    "torch._utils._rebuild_parameter": lambda made: parameter_of(*_arguments(made)),
}
NAMES = (
    *_KINDS,
    *_FORMS,
    *STORAGES,
    ENCODE,
    *("numpy.ndarray", "numpy.dtype", "torch.device", "collections.OrderedDict"),
)
"""All that such a pickle may name."""


def _arguments(made: RebuiltObject) -> list[Any]:
    """The first is a tensor or its numbers; the others are plain."""
    first, *others = made.arguments
    return [_read(first), *others]
