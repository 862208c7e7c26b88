"""Which kernels a translation unit holds, by the symbols of its device code."""

import re
from collections import Counter
from collections.abc import Iterator

from edgepack.api import BundleError
from edgepack.api.kit import read_elf
from edgepack.files.elf_reader import SHT_SYMTAB, ElfError
from edgepack_cuda.fatbin import Code, Fatbin

FUNCTION = 2
"""``STT_FUNC``."""
ANONYMOUS = re.compile(r"_GLOBAL__N__[0-9a-f]+_\d+_(\w+)_(cu|cpp|cuh|cc)_[0-9a-f]+")
CUTLASS = re.compile(r"4arch4(Sm\d+)E")
"""Which generation of GPUs a template of CUTLASS is for: several are compiled for each GPU, and one is chosen when it runs."""
EVERYWHERE = ("EmptyKernel",)
"""Of CUB's headers, in every unit that includes one."""


def kernels_of(section: bytes, fatbin: Fatbin) -> tuple[str, ...]:
    """Names of the kernels of a translation unit, without namespaces and template arguments, the most frequent first.

    Kernels of an unnamed namespace are called after their source too, e.g. ``CopyVectorHalf (fpgeneric.cu)``, those of
    CUTLASS after the generation that they are for, e.g. ``attention_kernel_batched_impl<Sm80>``. Empty where there is only
    PTX, or no kernel.
    """
    counts: Counter[str] = Counter()
    for code in fatbin.codes:
        if code.kind == "cubin":
            counts.update(name for name in map(plain_name, functions_of(code, section)) if name)
            break  # the others hold the same for other architectures
    return tuple(name for name, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def functions_of(code: Code, section: bytes) -> Iterator[str]:
    """Mangled names of a cubin's functions. Raises ``BundleError`` for one that is damaged."""
    cubin = code.content(section)
    if cubin[:4] != b"\x7fELF":
        return
    try:
        yield from (name for name, info, _ in read_elf(cubin).symbols(SHT_SYMTAB) if info & 15 == FUNCTION)
    except ElfError as error:
        raise BundleError(f"device code at {code.offset:#x} is damaged: {error}") from error


def plain_name(mangled: str) -> str:
    """The function's own name in a mangled one; empty for helpers of the compiler (``$__internal_…``).

    Itanium C++ ABI, 5.1.2: names are numbers of bytes and bytes, nested ones between N and E.
    """
    if mangled.startswith("$"):
        return ""
    if not mangled.startswith("_Z"):
        return mangled
    rest = mangled[2:].removeprefix("N").lstrip("KV")
    parts: list[str] = []
    while found := re.match(r"\d+", rest):
        size, rest = int(found.group()), rest[found.end() :]
        parts.append(rest[:size])
        rest = rest[size:]
    if not parts or parts[-1] in EVERYWHERE:
        return ""
    generation = CUTLASS.search(rest)
    name = f"{parts[-1]}<{generation[1]}>" if generation else parts[-1]
    source = next((match for part in parts if (match := ANONYMOUS.fullmatch(part))), None)
    return f"{name} ({source[1]}.{source[2]})" if source else name
