"""What other plugins may use of this one."""

from edgepack_armv7.processor import ARMV7L as ARMV7L
