"""Which translation units an operator needs: lists kept as data, one for each version of ONNX Runtime."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from edgepack.api import BundleError
from edgepack.api.kit import load_toml, read_table
from edgepack_cuda.fatbin import architecture_key
from edgepack_cuda.image import read_image
from edgepack_cuda.kernels import kernels_of
from edgepack_cuda.prune import device_code

PREFIX = "onnxruntime-"
CHOSEN = "<Sm?>"
"""Ends a kernel's name of which there are several, each for a generation of GPUs, and one is chosen when it runs."""


@dataclass(frozen=True, kw_only=True)
class Lists:
    """The lists for one version's CUDA provider."""

    version: str
    units: int
    """How many translation units that library has: another number is another build."""
    always: tuple[str, ...]
    """Kernels that are needed whatever the model is."""
    operators: Mapping[str, tuple[str, ...]]
    """Operator → its kernels; none for those that are cuBLAS's, or compute nothing."""

    def unknown(self, operators: Collection[str]) -> tuple[str, ...]:
        """The operators that the lists say nothing of."""
        return tuple(sorted(set(operators) - set(self.operators)))

    def units_for(
        self, operators: Collection[str], kernels: Sequence[Sequence[str]], architectures: Collection[str]
    ) -> frozenset[int]:
        """Indices of the units that hold a kernel of one of the operators; ``kernels`` are those of each unit."""
        present = _present(kernels)
        named = {*self.always, *(kernel for name in operators for kernel in self.operators[name])}
        wanted = {each for name in named for each in _of_generations(name, present, architectures)}
        return frozenset(index for index, names in enumerate(kernels) if wanted & set(map(short, names)))

    @property
    def names(self) -> frozenset[str]:
        """All kernels of the lists."""
        return frozenset(self.always).union(*self.operators.values())

    def absent(self, kernels: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Kernels of the lists that no unit holds: the lists are of another build."""
        present = {of_any(name) for name in _present(kernels)}
        return tuple(sorted({of_any(name) for name in self.names} - present))


def _present(kernels: Sequence[Sequence[str]]) -> set[str]:
    return {short(name) for names in kernels for name in names}


def of_any(kernel: str) -> str:
    """``name<Sm?>`` for ``name<Sm80>``."""
    return re.sub(r"<Sm\d+>$", CHOSEN, kernel)


def _of_generations(kernel: str, present: Collection[str], architectures: Collection[str]) -> set[str]:
    """A kernel of the lists as it is called in the library: for each device the newest generation that is not newer."""
    if not kernel.endswith(CHOSEN):
        return {kernel}
    name = kernel.removesuffix(CHOSEN)
    found = (re.fullmatch(rf"{re.escape(name)}<Sm(\d+)>", each) for each in present)
    generations = [int(each[1]) for each in found if each]
    devices = [architecture_key(each)[0] for each in architectures]
    newest = [max((each for each in generations if each <= device), default=0) for device in devices]
    return {f"{name}<Sm{each}>" for each in newest}


def short(kernel: str) -> str:
    """A kernel's name without the source that it is in."""
    return kernel.partition(" ")[0]


def known_versions() -> tuple[str, ...]:
    """The versions of ONNX Runtime that there are lists for."""
    names = (file.name for file in (files("edgepack_cuda") / "data").iterdir())
    return tuple(
        sorted(name.removeprefix(PREFIX).removesuffix(".toml") for name in names if name.startswith(PREFIX))
    )


def lists_for(version: str) -> Lists | None:
    """The lists for a version; ``None`` where there are none."""
    file = files("edgepack_cuda") / "data" / f"{PREFIX}{version}.toml"
    if not file.is_file():
        return None
    return read_table(Lists, {"version": version, **load_toml(file)})


def select_units(
    content: bytes,
    name: str,
    version: str | None,
    operators: Collection[str] | None,
    *,
    architectures: Collection[str],
    note: Callable[[str], None],
) -> frozenset[int] | None:
    """Indices of the units for a model's operators (``None``: for all that the lists know) on some architectures.

    ``None`` where there are no lists for the version, the library is not the one that they are of, or an operator is not
    in them: then only architectures can be pruned, and ``note`` says why.
    """
    lists = lists_for(version or "")
    if lists is None:
        known = ", ".join(known_versions())
        note(f"no lists for ONNX Runtime {version or '(no version given)'}, but for {known}: all units stay")
        return None
    _, code, fatbins = device_code(read_image(content, name), name)
    try:
        kernels = [kernels_of(code, fatbin) for fatbin in fatbins]
    except BundleError as error:
        note(f"the kernels' names cannot be read ({error.message}): all units stay")
        return None
    absent = lists.absent(kernels)
    if len(fatbins) != lists.units or absent:
        what = f"{len(fatbins)} units instead of {lists.units}" if not absent else f"no {absent[0]}"
        note(f"{name} is not the build that the lists for {lists.version} describe ({what}): all units stay")
        return None
    wanted = lists.operators if operators is None else operators
    if unknown := lists.unknown(wanted):
        note(f"the lists for {lists.version} do not know {', '.join(unknown)}: all units stay")
        return None
    return lists.units_for(wanted, kernels, architectures)
