"""The last link of a WebAssembly runtime: Emscripten's, with a JavaScript module around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ToolError
from edgepack.foundry.elf import archive_symbols
from edgepack.foundry.web.api import EXPORTS
from edgepack.foundry.web.emscripten import Emscripten

SCHEMA = "4"
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


def offered_symbols(emscripten: Emscripten) -> frozenset[str]:
    """What Emscripten's system libraries define."""
    return frozenset().union(*(archive_symbols(path) for path in sorted(emscripten.libraries.glob("*.a"))))


def link_web(
    objects: Sequence[Path],
    folder: Path,
    *,
    emscripten: Emscripten,
    scripts: Sequence[tuple[str, Path]],
    log_file: Path,
    context: BuildContext,
) -> None:
    """Write ``ort.wasm`` and ``ort.mjs`` into ``folder``. Raises ``ToolError``.

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
        # For binaryen, which with -Oz makes kernels 6 % slower and the file 1 % smaller under brotli.
        "-O2",
        "--no-entry",
        "-fno-rtti",
    ]
    command += ["-fno-exceptions", "-msimd128", "-Wl,--gc-sections", f"-Wl,-Map={work / MAP}"]
    command += [f"-s{name}={value}" for name, value in SETTINGS.items()]
    for option, script in scripts:
        command += [option, script]
    try:
        context.run(command, cwd=work, env=emscripten.environment(work), log_file=log_file)
    except ToolError as error:
        raise ToolError(f"the runtime does not link: {error.message}", hint=error.hint) from error
    for name in (WASM, GLUE, MAP):
        (folder / name).write_bytes((work / name).read_bytes())
