"""Where a library looks for those that it needs."""

from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile


def run_path(library: Path) -> str | None:
    """``DT_RUNPATH``, e.g. ``$ORIGIN``; None where there is none."""
    with library.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".dynamic")
        assert isinstance(section, DynamicSection)
        return next((str(vars(tag)["runpath"]) for tag in section.iter_tags("DT_RUNPATH")), None)
