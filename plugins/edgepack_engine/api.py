"""What other plugins may use of this one."""

from pathlib import Path

from edgepack.api import BuildContext, Target
from edgepack_engine.builder import ARITHMETIC as ARITHMETIC
from edgepack_engine.builder import EngineBuilder, require_by_token
from edgepack_engine.wasm import MODULE, wasm_module


def plan_builder(target: Target, *, attention: str, context: BuildContext) -> EngineBuilder:
    """Makes plans for a program that is none of the engine's own platforms. Raises ``TargetError`` for a recipe that it does not take."""
    require_by_token(target, context)
    return EngineBuilder(target=target, context=context, attention=attention)


def web_assembly(*, context: BuildContext) -> tuple[Path, tuple[Path, ...]]:
    """The module that computes plans, and the licences of what is in it."""
    folder = wasm_module(context=context)
    return folder / MODULE, tuple(sorted((folder / "licenses").iterdir()))
