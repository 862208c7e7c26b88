"""What other plugins may use of this one."""

from edgepack_engine.builder import EngineBuilder as EngineBuilder
from edgepack_engine.builder import engine_builder as engine_builder
