"""The parsers in C++, compiled with sanitizers where the compiler has them, and fed by ``driver.cc``."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from edgepack.runner.native.sources import ort_encoder, program_sources
from tests.fuzz.rounds import Campaign
from tests.support.native import compile_together as compile_one
from tests.support.native import compiler

TARGETS = ("table", "json", "lines", "bundle", "signature", "http")
SANITIZERS = (
    "-O1",
    "-g",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
)


def has_sanitizers(folder: Path) -> bool:
    """Whether the compiler here has the libraries that ``-fsanitize`` asks for."""
    source = folder / "probe.cc"
    source.write_text("int main() { return 0; }")
    command = [*compiler(), *SANITIZERS, "-o", str(folder / "probe"), str(source)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def compile_targets(folder: Path, *further: str) -> Path:
    """The program ``fuzz`` of all targets, with further flags."""
    own = {
        f"fuzz/{path.name}": path.read_text(encoding="utf-8")
        for path in sorted(Path(__file__).parent.glob("*.cc"))
    }
    sources = dict(program_sources(ort_encoder("loaded"), ("serve", "signatures")))
    del sources["program/main.cc"]
    flags = SANITIZERS if has_sanitizers(folder) else ("-O1",)
    return compile_one({**sources, **own}, folder / "fuzz", *flags, *further)


def run_target(program: Path, target: str, seeds: Sequence[Path], *, limit: str, seed: int) -> int:
    """How many inputs were tried: as many as ``limit`` says, or, with an ``s`` behind it, what seconds suffice for. Raises ``AssertionError`` naming the file with the input that went wrong, and why."""
    last, log = program.with_name(f"{target}.last"), program.with_name(f"{target}.log")
    done = subprocess.run(
        [program, target, limit, str(seed), last, *seeds],
        capture_output=True,
        check=False,
        env={
            "ASAN_OPTIONS": f"log_path={log}:allocator_may_return_null=0",
            "UBSAN_OPTIONS": f"log_path={log}",
        },
    )
    if done.returncode:
        # Of UBSan, some compilers write to standard error all the same.
        said = "".join(path.read_text()[:3000] for path in program.parent.glob(f"{log.name}.*"))
        said += done.stderr[:3000].decode(errors="replace")
        raise AssertionError(f"{target} ended with {done.returncode} at {last}, seed {seed}\n{said}")
    return int(done.stdout)


def write_seeds(folder: Path, target: str) -> list[Path]:
    """Sound inputs to start from."""
    if target == "table":
        from tests.fuzz.tables import small_tables

        contents = list(small_tables())
    elif target == "bundle":
        from tests.fuzz.tables import small_manifest

        contents = [small_manifest()]
    elif target == "signature":
        from edgepack.bundles.manifest import SIGNATURE
        from tests.fuzz.signatures import KEY, seeds

        contents = [KEY.public.pem + b"\0" + seeds()[SIGNATURE]]
    elif target == "http":
        from tests.fuzz.requests import BODIES, SEEDS

        contents = [*SEEDS, *BODIES, *OTHER_BODIES]
    else:
        contents = [line.encode() for line in LINES]
    paths = [folder / f"{target}-{number}" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


OTHER_BODIES = (
    b'{"inputs": ["a cat"], "normalize": true, "truncate": false, "prompt_name": "query", "truncation_direction": "Right"}',
    b'{"query": "a", "documents": ["cat", {"text": "mat"}], "top_n": 1, "return_documents": true}',
    b'{"prompt": "a cat", "input": ["\\ud83d"], "options": {"a": [null, 1e5]}, "dimensions": 4}',
)
LINES = (
    '{"text": "a cat", "id": 7}\n{"text": "\\ud83d\\ude00 \\u00fc"}\n\n{"text": ""}',
    "\ufeffa cat\r\nthe kitten\n\nüñí 漢字 🙂",
    '[1, -0.5e+10, true, false, null, NaN, -Infinity, {"a": [{}], "a": 2, "": "\\n\\t\\"\\/"}]',
    "--jsonl --text-field name --out npy --dtype int8 --dim 4 -- text",
    "[" * 100 + "]" * 100,
)


def campaigns(folder: Path) -> Iterator[Campaign]:
    program = compile_targets(folder)
    for target in TARGETS:
        yield native_campaign(program, target, write_seeds(folder, target))


def native_campaign(program: Path, target: str, seeds: Sequence[Path]) -> Campaign:
    return target, lambda seconds, seed: run_target(program, target, seeds, limit=f"{seconds}s", seed=seed)
