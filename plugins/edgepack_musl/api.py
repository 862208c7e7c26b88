"""What other plugins may use of this one."""

from edgepack_musl.libc import Musl as Musl
from edgepack_musl.platforms import NO_STACK_TRACES as NO_STACK_TRACES
