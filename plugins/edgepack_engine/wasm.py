"""Engine as a WebAssembly module that imports nothing: zig's clang compiles it, with headers of libc++ and wasi-libc and none of their libraries."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from edgepack.api import BuildContext, ToolError
from edgepack.api.kit import zig_program
from edgepack.runner.native.sources import source_files
from edgepack_engine.builder import sources

MODULE, RELAXED = "engine.wasm", "engine-relaxed.wasm"
FORMS = {MODULE: (), RELAXED: ("-mrelaxed-simd",)}
"""Names of the module's forms, and the flags of their kernels: the second is for browsers and runtimes that have relaxed SIMD. Both give the same bits."""
MAGIC = b"\0asm"
OWN = "wasm"
"""Folder of what the session asks a system for, and of what a host calls."""
SHARED = (
    "base/error.h",
    "base/file.h",
    "base/linked.h",
    "base/threads.",
    "encoder/encoder.h",
    "tokenizer/table.",
)
"""Of the native program: what the session includes."""
BY_FORM = "kernels_simd128.cc"
KERNELS = ("kernels.cc", BY_FORM)
ALLOCATOR = "libc/wasi/emmalloc/emmalloc.c"
TARGET = (
    *("-target", "wasm32-wasi", "-msimd128", "-mbulk-memory", "-mnontrapping-fptoint"),
    *("-O2", "-DNDEBUG", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections", "-w", "-nostdinc"),
)
CXX = (
    *("--driver-mode=g++", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"),
    *("-D_LIBCPP_ABI_NAMESPACE=__1", "-D_LIBCPP_ABI_VERSION=1", "-D_LIBCPP_HAS_THREAD_API_PTHREAD"),
    *("-D_LIBCPP_HAS_MUSL_LIBC", "-D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE"),
    *("-D_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS", "-D_LIBCPP_HAS_NO_VENDOR_AVAILABILITY_ANNOTATIONS"),
    *("-D_LIBCPP_PSTL_BACKEND_SERIAL", "-D_WASI_EMULATED_MMAN"),
)
HEADERS = ("include", "libc/include/wasm-wasi-musl", "libc/include/generic-musl")
LINK = ("--no-entry", "--gc-sections", "--strip-all", "--stack-first", "-z", "stack-size=131072")
LICENSES = {
    "libc++.txt": "lib/libcxx/LICENSE.TXT",
    "wasi-libc.txt": "lib/libc/wasi/LICENSE-MIT",
}
"""Of what is compiled in, as zig has it."""


def wasm_module(*, seldom: bool = True, context: BuildContext) -> Path:
    """A folder of the store with the module in both forms and ``licenses/``; without ``seldom`` for plans that have no step of ``SELDOM``.

    Raises ``MissingToolError`` or ``ToolError``.
    """
    zig = zig_program()
    texts = dict(module_sources(seldom=seldom))
    inputs = {
        "zig": context.run([zig, "version"]).strip(),
        "flags": " ".join((*TARGET, *CXX, *HEADERS, *LINK, repr(FORMS))),
        "sources": "".join(f"{name}\n{text}" for name, text in sorted(texts.items())),
    }

    def make(folder: Path) -> None:
        work = context.work_dir / ("engine-wasm-whole" if seldom else "engine-wasm")
        for name, text in texts.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(text, encoding="utf-8")
        compile_modules(zig, work, folder, context=context)
        (folder / "licenses").mkdir()
        for name, place in LICENSES.items():
            (folder / "licenses" / name).write_bytes((zig.parent / place).read_bytes())

    return context.store.cached("engine-wasm", inputs, make)


def module_sources(*, seldom: bool = True) -> Iterator[tuple[str, str]]:
    """Place → text of all that is compiled, but for the allocator."""
    yield from source_files(*SHARED).items()
    for name, text in sources(seldom=seldom):
        if not name.startswith("kernels") or name.endswith((".h", ".inc")) or name in KERNELS:
            yield name, text
    for each in sorted((files(__package__) / "csrc" / OWN).iterdir(), key=lambda each: each.name):
        yield f"{OWN}/{each.name}", each.read_text(encoding="utf-8")


def compile_modules(zig: Path, work: Path, folder: Path, *, context: BuildContext) -> None:
    """Compile the sources that lie in ``work``, and link both forms into ``folder``."""
    library = zig.parent / "lib"
    headers = [word for folder in HEADERS for word in ("-isystem", str(library / folder))]
    units = [
        *(str(file.relative_to(work)) for file in sorted(work.rglob("*.cc"))),
        str(library / ALLOCATOR),
    ]
    log = work / "compile.log"
    objects: dict[str, list[str]] = {form: [] for form in FORMS}
    with context.progress("compile the engine for WebAssembly", len(units), unit="files") as bar:
        for unit in units:
            cxx = (*CXX, "-isystem", str(library / "libcxx/include"), "-I.") if unit.endswith(".cc") else ()
            for form, flags in FORMS.items():
                name = f"{form if unit == BY_FORM else 'both'}-{Path(unit).name}.o"
                if not (work / name).exists():
                    command = [zig, "clang", *cxx, *TARGET, *flags, *headers, "-c", unit, "-o", name]
                    context.run(command, cwd=work, log_file=log)
                objects[form].append(name)
            bar.advance(1)
    for form, made in objects.items():
        context.run([zig, "wasm-ld", *LINK, *made, "-o", (folder / form).absolute()], cwd=work, log_file=log)
        if not (folder / form).read_bytes().startswith(MAGIC):
            raise ToolError(f"zig made no WebAssembly module of {form}")
