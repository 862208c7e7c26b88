"""Layers that the weights have and config.json does not state."""

import re
from collections.abc import Iterator, Mapping

from edgepack.errors import ModelError
from edgepack.models.read.safetensors import Tensor, TensorFile


class ReadTensors(Mapping[str, Tensor]):
    """Tensors, and the names of those that were asked for."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.names.add(name)
        return self._tensors[name]

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def require_all_layers(weights: TensorFile, asked: ReadTensors) -> None:
    """Raise ``ModelError`` where a graph takes some layers of the weights and not all: config.json says fewer.

    What no layer is taken of, such as another medium's part, does not count.
    """
    taken = {_layer(name) for name in asked.names}
    parts = {layer[0] for layer in taken if layer}
    for name in asked:
        layer = _layer(name)
        if layer and layer[0] in parts and layer not in taken:
            raise ModelError(
                f"{weights.path.name} has {name}, a layer more than config.json states",
                hint="config.json and the weights are of different models; layers that are left out on purpose have to be removed",
            )


def _layer(name: str) -> tuple[str, int] | None:
    """Layer that a tensor is of: the name before its number, and the number."""
    found = re.match(r"(.*?\.)(\d+)\.", f".{name}")
    return (found.group(1), int(found.group(2))) if found else None
