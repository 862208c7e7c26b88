"""The last link of a WebAssembly runtime: Emscripten's, with a JavaScript module around it."""

import re
from collections.abc import Sequence
from pathlib import Path

from edgepack.api import BuildContext, ToolError
from edgepack.api.kit import archive_symbols
from edgepack_web.foundry.api import EXPORTS
from edgepack_web.foundry.emscripten import Emscripten

SCHEMA = "9"
"""Changes when the same objects are linked otherwise."""
WASM, GLUE, MAP = "ort.wasm", "ort.mjs", "link.map"
RUNTIME_METHODS = (
    "stackAlloc",
    "stackRestore",
    "stackSave",
    "UTF8ToString",
    "stringToUTF8",
    "lengthBytesUTF8",
    "getValue",
    "setValue",
)
SETTINGS = {
    "ALLOW_MEMORY_GROWTH": "1",
    "ASSERTIONS": "0",
    # What Emscripten adds by itself: OpenGL, OpenAL.
    "AUTO_NATIVE_LIBRARIES": "0",
    "ENVIRONMENT": "web,worker,node",
    "EXIT_RUNTIME": "0",
    "EXPORT_ES6": "1",
    "EXPORT_NAME": "ortWasm",
    "FILESYSTEM": "0",
    "INCOMING_MODULE_JS_API": "locateFile,instantiateWasm,wasmBinary",
    "MALLOC": "emmalloc",
    "MAXIMUM_MEMORY": "4294967296",
    "MODULARIZE": "1",
    "STACK_SIZE": "5242880",
    "WASM_BIGINT": "1",
    "ALLOW_UNIMPLEMENTED_SYSCALLS": "1",
    "EXPORTED_RUNTIME_METHODS": ",".join(RUNTIME_METHODS),
    "EXPORTED_FUNCTIONS": ",".join(f"_{name}" for name in ("malloc", "free", *EXPORTS)),
}
"""As upstream's onnxruntime_webassembly.cmake, for one thread, without its closure compiler."""
THREADS = {
    "INCOMING_MODULE_JS_API": "locateFile,instantiateWasm,wasmBinary,numThreads",
    # A page's memory that grows while others use it makes JavaScript look for its new size at every access: fewer
    # steps, then. What a model of 23 MB with a text of usual length takes is there from the start.
    "INITIAL_MEMORY": "67108864",
    # As upstream: kernels ask for their buffers elsewhere.
    "DEFAULT_PTHREAD_STACK_SIZE": "131072",
    # Workers start while the module is being loaded; one that were started in the middle of a run would start after it.
    "PTHREAD_POOL_SIZE": "(Module['numThreads']??1)-1",
}
"""What is different, or added, with threads."""
_BINARY = re.compile(r"\bwasmBinaryFile\s*\?\?=\s*(?=findWasmBinary\(\))")
_WORKER = re.compile(r"new Worker\(\s*new URL\(([\"'])[\w.]+\1,\s*import\.meta\.url\)")


def settings(*, threads: bool) -> dict[str, str]:
    """Emscripten's settings for a runtime."""
    return {**SETTINGS, **(THREADS if threads else {})}


def offered_symbols(emscripten: Emscripten, *, threads: bool = False) -> frozenset[str]:
    """Symbols that Emscripten's system libraries define; some have a form of their own for threads."""
    libraries = {path.name: path for path in emscripten.libraries.glob("*.a")}
    for name in [name for name in libraries if "-mt" in name]:
        other = libraries.pop(name)
        if threads:
            libraries[name.replace("-mt", "")] = other
    return frozenset().union(*(archive_symbols(path) for _, path in sorted(libraries.items())))


def link_web(
    objects: Sequence[Path],
    folder: Path,
    *,
    emscripten: Emscripten,
    scripts: Sequence[tuple[str, Path]],
    threads: bool = False,
    log_file: Path,
    context: BuildContext,
) -> None:
    """Write ``ort.wasm``, with the names of its functions, ``ort.mjs`` and the linker's map into ``folder``. Raises ``ToolError``.

    ``scripts`` are upstream's additions to the JavaScript, as (option, file).
    """
    work = context.work_dir / "emscripten"
    work.mkdir(exist_ok=True)
    response = work / "objects.rsp"
    response.write_text("".join(f'"{path}"\n' for path in objects))
    command = [
        *emscripten.link_command(),
        f"@{response}",
        "-o",
        work / GLUE,
        # For binaryen: as fast as with -O2 and smaller; with -Oz kernels are 6 % slower.
        "-Os",
        "--no-entry",
        "-fno-rtti",
    ]
    command += ["-fno-exceptions", "-msimd128", "-Wl,--gc-sections", f"-Wl,-Map={work / MAP}"]
    command += ["--profiling-funcs", "-Wl,--no-demangle"]
    command += ["-pthread"] if threads else []
    command += [f"-s{name}={value}" for name, value in settings(threads=threads).items()]
    for option, script in scripts:
        command += [option, script]
    try:
        context.run(command, cwd=work, env=emscripten.environment(work), log_file=log_file)
    except ToolError as error:
        raise ToolError(f"the runtime does not link: {error.message}", hint=error.hint) from error
    for name in (WASM, GLUE, MAP):
        (folder / name).write_bytes((work / name).read_bytes())
    (folder / GLUE).write_text(placeless((work / GLUE).read_text(), threads=threads))


def placeless(script: str, *, threads: bool = False) -> str:
    """Emscripten's module, to be called anything and to be loaded from anywhere, also from a blob.

    As it comes it makes up the address of the WebAssembly beside it, also when it is given that; and threads start from a
    file of a fixed name instead of from the module itself, which upstream changes in its own, too. Raises ``ToolError``
    for another module.
    """
    changed, count = _BINARY.subn(r"\g<0>wasmBinary?'':", script)
    if threads:
        changed, workers = _WORKER.subn("new Worker(new URL(import.meta.url)", changed)
        count *= workers
    if count != 1:
        raise ToolError("Emscripten's JavaScript is not as it was in 3.1.69")
    return changed
