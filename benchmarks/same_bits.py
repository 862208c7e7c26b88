"""One digest of the engine's vectors, for every processor level and platform that this machine has or emulates.

    PYTHONPATH=. .venv/bin/python benchmarks/same_bits.py
    PYTHONPATH=. .venv/bin/python benchmarks/same_bits.py --texts 200

all-MiniLM-L6-v2 by recipe int8, 200 verification texts and 4,000 fuzz texts of every script. The engine is compiled for x86-64 and arm64, with glibc
and with musl; its kernels are chosen by name. What is for arm64 runs under qemu (``edgepack fetch --target linux-arm64-min`` fetches
it), which takes minutes for all texts. Ends with 1 where two digests differ.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.engine_kernels import has_level
from tests.support.engine_session import session_sources
from tests.support.native import compile_apart

from edgepack.console import Story
from edgepack.errors import MissingToolError
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.models.find.source import ingest
from edgepack.models.read.tokenizer import minimal_json
from edgepack.models.reference import token_batches
from edgepack.plugins.context import HostContext, host_context
from edgepack.records.model import ModelSource
from edgepack.targets import built_in_targets, read_target
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.texts.fuzz import fuzz_texts_for
from edgepack_engine.builder import create_builder, sources

FUZZ, SEED = 4000, 1
ZIG = (sys.executable, "-m", "ziglang", "c++", "-target")
LEVELS = {
    "x86_64": ("base", "sse41", "avx2", "avxvnni", "avx512"),
    "aarch64": ("base", "dotprod"),
}
"""``base`` is SSE2, and NEON."""
LIBCS = {"x86_64": ("gnu.2.28", "musl"), "aarch64": ("musl",)}


@dataclass(frozen=True, kw_only=True)
class Way:
    name: str
    command: tuple[str | Path, ...]
    batch: int = 32
    threads: int = 1


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--texts", type=int, default=200 + FUZZ)
    options = made.parse_args()
    with host_context(story=Story(quiet=True)) as context, tempfile.TemporaryDirectory() as name:
        folder, source = Path(name), ingest(None, context=context)
        file = next(file for file in built_in_targets() if file.name == "linux-x86-fast.toml")
        plan = create_builder(read_target(file, origin="edgepack"), context).prepare_model(source).file
        ids = write_ids(source, options.texts, folder / "ids")
        digests = set()
        for way in ways(folder, context):
            begin = time.perf_counter()
            program, level = way.command[:-1], way.command[-1]
            words = [*program, plan, ids, level, str(way.batch), str(way.threads)]
            vectors = subprocess.run(words, check=True, capture_output=True).stdout
            digests.add(hashlib.sha256(vectors).hexdigest())
            print(  # noqa: T201
                f"{hashlib.sha256(vectors).hexdigest()}  {way.name}  ({time.perf_counter() - begin:.0f} s)",
                flush=True,
            )
    print(f"{options.texts:,} texts: {'one digest' if len(digests) == 1 else f'{len(digests)} digests'}")  # noqa: T201
    sys.exit(len(digests) != 1)


def write_ids(source: ModelSource, count: int, file: Path) -> Path:
    """A text's ids a line."""
    from tokenizers import Tokenizer

    reference = Tokenizer.from_str(minimal_json(source))
    texts = [*verification_texts(), *fuzz_texts_for(reference, FUZZ, seed=SEED)][:count]
    (feed,) = token_batches(source, texts, len(texts))
    lengths = feed["attention_mask"].sum(axis=1)
    rows = zip(feed["input_ids"], lengths, strict=True)
    file.write_text("".join(" ".join(map(str, row[:length])) + "\n" for row, length in rows))
    return file


def ways(folder: Path, context: HostContext) -> Iterator[Way]:
    """Commands up to the level's name."""
    for arch, levels in LEVELS.items():
        emulator = emulator_of(arch, context)
        if emulator is None:
            continue
        for libc in LIBCS[arch]:
            program = compiled(folder / f"{arch}-{libc}", f"{arch}-linux-{libc}")
            for level in levels:
                if arch == "x86_64" and not has_level(level):
                    continue
                named = f"{arch} {libc} {level}{' under qemu' if emulator else ''}"
                yield Way(name=named, command=(*emulator, program, level))
                if not emulator and level == levels[-1]:
                    yield Way(name=f"{named}, alone", command=(program, level), batch=1)
                    yield Way(name=f"{named}, 2 threads", command=(program, level), threads=2)


def emulator_of(arch: str, context: HostContext) -> Sequence[str | Path] | None:
    """Nothing for this machine's own processor; ``None``: there is no emulator."""
    if arch == "x86_64":
        return ()
    try:
        return find_emulator(arch, context=context).command("max")
    except MissingToolError as missing:
        print(f"not run: {arch} ({missing.message}; {missing.hint})")  # noqa: T201
        return None


def compiled(program: Path, target: str) -> Path:
    own = Path(__file__).with_suffix(".cc")
    static = ("-static",) if target.endswith("musl") else ()
    files = {**session_sources(), **dict(sources()), own.name: own.read_text(encoding="utf-8")}
    files.pop("kernels.cc")
    return compile_apart(files, program, "-O2", *static, by=(*ZIG, target))


if __name__ == "__main__":
    main()
