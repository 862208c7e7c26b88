"""What other plugins may use of this one."""

from pathlib import Path

from edgepack.api import BuildContext, Target
from edgepack_engine.builder import EngineBuilder as EngineBuilder
from edgepack_engine.builder import engine_builder as engine_builder
from edgepack_engine.builder import require_by_token
from edgepack_engine.libembed import needs_no_libc as needs_no_libc
from edgepack_engine.libembed import node_addon as node_addon
from edgepack_engine.plan import SELDOM
from edgepack_engine.sound import has_steps
from edgepack_engine.wasm import MODULE, RELAXED, wasm_module


def plan_builder(target: Target, *, attention: str, context: BuildContext) -> EngineBuilder:
    """Builder whose plans a program computes that it does not make. Raises ``TargetError`` for a recipe that it does not take."""
    require_by_token(target, context)
    return EngineBuilder(target=target, context=context, attention=attention)


def web_assembly(plan: Path, *, context: BuildContext) -> tuple[Path, Path, tuple[Path, ...]]:
    """WebAssembly module that computes a plan, its form for relaxed SIMD, and the licences of what is in both."""
    folder = wasm_module(seldom=has_steps(plan, SELDOM), context=context)
    return folder / MODULE, folder / RELAXED, tuple(sorted((folder / "licenses").iterdir()))
