"""What other plugins may use of this one."""

from edgepack_static.builder import StaticBuilder as StaticBuilder
from edgepack_static.builder import static_builder as static_builder
