"""What ``edgepack quantize`` says of a model in the config.json that it writes: the graph alone does not tell."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgepack.errors import ModelError
from edgepack.toml_schema import Malformed, read_table

KEY = "edgepack"
"""In config.json."""


@dataclass(frozen=True, kw_only=True)
class MadeSmall:
    """A model that a recipe has made; pooling and what comes after it are in the graph."""

    origin: str
    """Of the model that it was made from."""
    recipe: str
    precision: str
    dimension: int
    """Of a text's vector."""
    warnings: tuple[str, ...] = ()
    """What was doubtful of the model that it was made from."""


def read_made_small(config: Mapping[str, Any]) -> MadeSmall | None:
    """``None`` for a config.json that something else has written. Raises ``ModelError``."""
    if KEY not in config:
        return None
    try:
        return read_table(MadeSmall, config[KEY], where=KEY)
    except Malformed as error:
        raise ModelError(
            f"config.json: {error}", hint="write the folder anew, with `edgepack quantize`"
        ) from error
