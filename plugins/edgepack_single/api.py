"""What other plugins may use of this one."""

from edgepack_single.package import write_zip as write_zip
