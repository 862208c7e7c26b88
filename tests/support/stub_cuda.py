"""CUDA's libraries without CUDA: every function that a library asks for is there, and fails as on a system without a GPU.

So that a provider can be loaded as it is on a device (all symbols bound, constructors run) where there is none. What its
constructors register is taken down (``recording_cudart``).
"""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.support.fake_cuda import compile_driver, compile_library
from tests.support.recording_cudart import REGISTER

CUDA = ("libcublas.so", "libcublasLt.so", "libcudart.so", "libcudnn.so", "libcurand.so", "libcuda.so")
NO_DEVICE = 100
KNOWN = {
    **REGISTER,
    "cudaGetErrorString": 'const char *cudaGetErrorString(int e) { return "no CUDA-capable device is detected"; }',
    "cudaGetErrorName": 'const char *cudaGetErrorName(int e) { return "cudaErrorNoDevice"; }',
}


def write_stubs(library: Path, folder: Path, *others: Path, answers: Mapping[str, str] | None = None) -> Path:
    """The CUDA libraries that some libraries name, in a folder, with all that they import of them.

    ``answers`` are functions that answer something else than that there is no GPU, in C.
    """
    wanted: dict[str, set[str]] = defaultdict(set)
    for each in (library, *others):
        for name, imported in _imports(each).items():
            wanted[name] |= imported
    special = {**KNOWN, **(answers or {})}
    for name in wanted:
        if name.startswith("libcuda.so"):
            compile_driver(folder, others=sorted(f for f in wanted[name] if f.startswith("cuTensor")))
            continue
        functions = sorted(wanted[name], key=lambda f: (f not in REGISTER, f))
        lines = [special.get(f, f"int {f}(void) {{ return {NO_DEVICE}; }}") for f in functions]
        script = folder / f"{name}.map"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"{name} {{ global: *; }};\n")
        compile_library(folder / name, "\n".join(lines), f"-Wl,--version-script={script}")
    return folder


def _imports(library: Path) -> dict[str, set[str]]:
    """Functions by the CUDA library that they are wanted of; those without a version are the driver's."""
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
    from elftools.elf.sections import SymbolTableSection

    with library.open("rb") as stream:
        file = ELFFile(stream)
        dynamic, symbols = file.get_section_by_name(".dynamic"), file.get_section_by_name(".dynsym")
        indices, needs = (file.get_section_by_name(f".gnu.version{suffix}") for suffix in ("", "_r"))
        assert isinstance(dynamic, DynamicSection) and isinstance(symbols, SymbolTableSection)
        assert isinstance(indices, GNUVerSymSection) and isinstance(needs, GNUVerNeedSection)
        names = [str(vars(t)["needed"]) for t in dynamic.iter_tags() if t.entry.d_tag == "DT_NEEDED"]
        owners = {
            version["vna_other"]: need.name
            for need, versions in needs.iter_versions()
            for version in versions
        }
        found: dict[str, set[str]] = defaultdict(set)
        for name in names:
            if name.startswith(CUDA):
                found[name] = set()
        for symbol, index in zip(symbols.iter_symbols(), indices.iter_symbols(), strict=True):
            if symbol["st_shndx"] != "SHN_UNDEF" or not symbol.name:
                continue
            owner = owners.get(index["ndx"], "libcuda.so.1" if symbol.name.startswith("cu") else "")
            if owner in found:
                found[owner].add(symbol.name)
    return dict(found)
