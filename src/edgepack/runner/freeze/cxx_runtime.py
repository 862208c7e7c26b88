"""A stand-in for the C++ runtime, of which tokenizers needs next to nothing.

The compiled module of tokenizers names libstdc++ for the suffix arrays of its trainers: fifteen symbols, of which
loading calls one, an empty constructor, and encoding none. The real library would add 2.2 MB to every bundle, and on
the systems of 2023 and later it also asks for a newer glibc than everything else that is frozen (2.36 in Debian 12).
"""

from pathlib import Path

from edgepack.context import BuildContext
from edgepack.files.elf import elf_files, needed_libraries, rename_needed, undefined_symbols
from edgepack.tools import find, is_installed

LIBRARY = "libstdc++.so.6"
STAND_IN = "libembedcxx.so"
COMPILERS = ("gcc", "cc", "clang")

SOURCE = """\
typedef __SIZE_TYPE__ size;
void *malloc(size);
void free(void *);
void abort(void) __attribute__((noreturn));

void *_Znwm(size n) { void *p = malloc(n ? n : 1); if (!p) abort(); return p; }
void *_Znam(size n) { return _Znwm(n); }
void _ZdlPv(void *p) { free(p); }
void _ZdaPv(void *p) { free(p); }
void _ZNSt8ios_base4InitC1Ev(void *self) {}
void _ZNSt8ios_base4InitD1Ev(void *self) {}
void _ZNSt9bad_allocD2Ev(void *self) {}
void _ZSt20__throw_length_errorPKc(const char *what) { abort(); }
void *__cxa_allocate_exception(size n) { abort(); }
void *__cxa_begin_catch(void *exception) { abort(); }
void __cxa_end_catch(void) { abort(); }
void __cxa_throw(void *exception, void *type, void *destroy) { abort(); }
/* Nothing to do in this frame: _URC_CONTINUE_UNWIND. */
int __gxx_personality_v0(void) { return 8; }
void *_ZTISt9bad_alloc[4];
void *_ZTVN10__cxxabiv120__si_class_type_infoE[16];
"""
# Symbols as libstdc++ versions them.
VERSIONS = {
    "GLIBCXX_3.4": (
        "_Znwm _Znam _ZdlPv _ZdaPv _ZNSt8ios_base4InitC1Ev _ZNSt8ios_base4InitD1Ev _ZNSt9bad_allocD2Ev "
        "_ZSt20__throw_length_errorPKc _ZTISt9bad_alloc"
    ),
    "CXXABI_1.3": (
        "__cxa_allocate_exception __cxa_begin_catch __cxa_end_catch __cxa_throw __gxx_personality_v0 "
        "_ZTVN10__cxxabiv120__si_class_type_infoE"
    ),
}


def replace_cxx_runtime(internal: Path, *, work: Path, context: BuildContext) -> None:
    """Put the stand-in in libstdc++'s place below ``_internal``, where it is enough for all who ask.

    Without a C compiler, or when something asks for more, the real library stays.
    """
    if not (internal / LIBRARY).exists():
        return
    users = [path for path in elf_files(internal) if LIBRARY in needed_libraries(path)]
    compiler = installed_compiler()
    if compiler is None or not is_enough(users):
        return
    compile_stand_in(internal / STAND_IN, compiler=compiler, work=work, context=context)
    for user in users:
        # Under a name of its own: a runtime library that needs the real one must not be given this.
        rename_needed(user, LIBRARY, STAND_IN)
    (internal / LIBRARY).unlink()


def installed_compiler() -> str | None:
    """The C compiler that would be used."""
    return next(filter(is_installed, COMPILERS), None)


def is_enough(users: list[Path]) -> bool:
    """Whether the stand-in has all that these files ask of libstdc++."""
    wanted = {name for path in users for name in undefined_symbols(path, versions=("GLIBCXX_", "CXXABI_"))}
    return wanted <= {name for names in VERSIONS.values() for name in names.split()}


def compile_stand_in(path: Path, *, compiler: str, work: Path, context: BuildContext) -> None:
    source, script = work / "cxx.c", work / "cxx.map"
    source.write_text(SOURCE)
    nodes = [f"{node} {{ global: {'; '.join(names.split())}; }};\n" for node, names in VERSIONS.items()]
    script.write_text("".join(nodes) + "EDGEPACK { local: *; };\n")
    options = ["-shared", "-fPIC", "-Os", "-w", "-fno-builtin", "-nostartfiles", "-s"]
    linking = [f"-Wl,-soname,{STAND_IN}", f"-Wl,--version-script={script}", "-Wl,--build-id=none"]
    context.run([find(compiler), *options, *linking, "-o", path, source])
