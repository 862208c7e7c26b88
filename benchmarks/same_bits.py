"""One digest of the engine's vectors, for every processor level and platform that this machine has or emulates.

    PYTHONPATH=. .venv/bin/python benchmarks/same_bits.py
    PYTHONPATH=. .venv/bin/python benchmarks/same_bits.py --texts 200 --only x86_64
    PYTHONPATH=. .venv/bin/python benchmarks/same_bits.py --texts armv7l=20 'aarch64 glibc=280' --keep /tmp/bits     # and again, where it was ended

all-MiniLM-L6-v2 by recipe int8, 200 verification texts and 4,000 fuzz texts of every script. The engine is compiled for x86-64, arm64, 32-bit ARM and
riscv64, with glibc and with musl, and for WebAssembly, in Node and in Chromium; its kernels are chosen by name. What is not this machine's runs under qemu (``edgepack fetch --target linux-arm64-min`` fetches
it): arm64 takes ten minutes and more for all texts, 32-bit ARM a second and more for each token, so that it is given fewer. A platform's vectors are
compared with those of the first one's same texts. With ``--keep`` what is made stays, and is not made again. Ends with 1 where two are not the same.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.browsers import CHROMIUM
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
from edgepack_engine.wasm import FORMS, module_sources, wasm_module
from edgepack_web.npm.node import find_node

FUZZ, SEED = 4000, 1
TOGETHER = 280
"""Texts that a process computes: what it made is kept when the next one is ended."""
ZIG = (sys.executable, "-m", "ziglang", "c++", "-target")
LEVELS = {
    "x86_64": ("base", "sse41", "avx2", "avxvnni", "avx512"),
    "aarch64": ("base", "dotprod", "i8mm"),
    "armv7l": ("base",),
    "riscv64": ("base",),
}
"""``base`` is SSE2, NEON on both kinds of ARM, and plain C++."""
TRIPLES = {
    "x86_64": ("x86_64-linux-gnu.2.28", "x86_64-linux-musl"),
    "aarch64": ("aarch64-linux-musl", "aarch64-linux-gnu.2.28"),
    "armv7l": ("arm-linux-musleabihf",),
    "riscv64": ("riscv64-linux-musl",),
}
EMULATED = {"aarch64": "max", "armv7l": "cortex-a7", "riscv64": "sifive-u54"}
"""qemu's processors."""
CPUS = {"arm-linux-musleabihf": ("-mcpu=cortex_a7",)}


@dataclass(frozen=True, kw_only=True)
class Way:
    """A platform, a level, and how texts are given to it."""

    name: str
    triple: str
    """Empty: the program is there."""
    emulator: Sequence[str | Path]
    program: Path
    level: str
    texts: int = 200 + FUZZ
    batch: int = 32
    threads: int = 1


def main() -> None:
    options = arguments()
    with host_context(story=Story(quiet=True)) as context, tempfile.TemporaryDirectory() as name:
        folder, source = Path(name), ingest(None, context=context)
        file = next(file for file in built_in_targets() if file.name == "linux-x86-fast.toml")
        plan = create_builder(read_target(file, origin="edgepack"), context).prepare_model(source).file
        ids = ids_of(source)
        kept = kept_folder(options.keep or folder / "kept", plan)
        digests: dict[int, set[str]] = {}
        first = b""
        for each in (*ways(folder, context), *in_wasm(context)):
            way = with_texts(each, options.texts)
            if options.only and not any(word in way.name for word in options.only):
                continue
            if way.triple and not way.program.exists():
                compiled(way.program, way.triple)
            begin = time.perf_counter()
            vectors = vectors_of(way, plan, ids[: way.texts], folder, kept)
            first = first or vectors
            found = hashlib.sha256(vectors).hexdigest()
            of_first = hashlib.sha256(first[: len(vectors)]).hexdigest()
            digests.setdefault(way.texts, {of_first}).add(found)
            said = f"{way.texts:,} texts, {time.perf_counter() - begin:.0f} s"
            print(f"{found}  {way.name}  ({said})", flush=True)  # noqa: T201
    for texts, all_found in digests.items():
        print(f"{texts:,} texts: {'one digest' if len(all_found) == 1 else f'{len(all_found)} digests'}")  # noqa: T201
    sys.exit(any(len(all_found) > 1 for all_found in digests.values()))


def arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--texts",
        nargs="+",
        type=part,
        default=[],
        metavar="[WORDS=]COUNT",
        help="how many, of all or of platforms with these words in their names; the last that fits counts",
    )
    made.add_argument("--keep", type=Path, help="a folder for what is made")
    made.add_argument("--only", nargs="+", metavar="WORD", help="platforms with one of these in their names")
    return made.parse_args()


def part(word: str) -> tuple[str, int]:
    """Of which platforms, and how many texts."""
    words, _, count = word.rpartition("=")
    return words, int(count)


def with_texts(way: Way, counts: Sequence[tuple[str, int]]) -> Way:
    """As many as the last of these counts says that fits its name; all without one."""
    return replace(
        way, texts=next((count for words, count in reversed(counts) if words in way.name), way.texts)
    )


def kept_folder(folder: Path, plan: Path) -> Path:
    """Where this engine's vectors of this plan are: others are not taken for them."""
    digest = hashlib.sha256(plan.read_bytes())
    for _, text in sorted((*sources(), *module_sources())):
        digest.update(text.encode())
    kept = folder / digest.hexdigest()[:16]
    kept.mkdir(parents=True, exist_ok=True)
    return kept


def vectors_of(way: Way, plan: Path, ids: Sequence[str], folder: Path, kept: Path) -> bytes:
    """Of so many texts, a process for each TOGETHER whose vectors are not kept."""
    made = []
    for begin in range(0, len(ids), TOGETHER):
        texts = ids[begin : begin + TOGETHER]
        file = kept / f"{way.name}, {begin + len(texts)}"
        if not file.exists():
            (folder / "ids").write_text("".join(texts))
            words = [
                *way.emulator,
                way.program,
                plan,
                folder / "ids",
                way.level,
                str(way.batch),
                str(way.threads),
            ]
            # Written at once or not at all, whenever the run is ended.
            part = file.with_suffix(".part")
            part.write_bytes(subprocess.run(words, check=True, capture_output=True).stdout)
            part.replace(file)
        made.append(file.read_bytes())
    return b"".join(made)


def ids_of(source: ModelSource) -> list[str]:
    """A text's ids a line."""
    from tokenizers import Tokenizer

    reference = Tokenizer.from_str(minimal_json(source))
    texts = [*verification_texts(), *fuzz_texts_for(reference, FUZZ, seed=SEED)]
    (feed,) = token_batches(source, texts, len(texts))
    lengths = feed["attention_mask"].sum(axis=1)
    rows = zip(feed["input_ids"], lengths, strict=True)
    return [" ".join(map(str, row[:length])) + "\n" for row, length in rows]


def ways(folder: Path, context: HostContext) -> Iterator[Way]:
    """Of every processor that is here or emulated; programs are still to be compiled."""
    for arch, levels in LEVELS.items():
        emulator = emulator_of(arch, context)
        if emulator is None:
            continue
        for triple in TRIPLES[arch]:
            libc = "musl" if "musl" in triple else "glibc"
            for level in levels:
                if arch == "x86_64" and not has_level(level):
                    continue
                named = f"{arch} {libc} {level}{' under qemu' if emulator else ''}"
                way = Way(
                    name=named,
                    triple=triple,
                    emulator=emulator,
                    program=folder / f"{arch}-{libc}",
                    level=level,
                )
                yield way
                if not emulator and level == levels[-1]:
                    yield replace(way, name=f"{named}, alone", batch=1)
                    yield replace(way, name=f"{named}, 2 threads", threads=2)


def in_wasm(context: HostContext) -> Iterator[Way]:
    """The module that pages have, in Node and in Chromium; nothing where there is no Node."""
    try:
        node = find_node()
    except MissingToolError as missing:
        print(f"not run: wasm32 ({missing.message}; {missing.hint})")  # noqa: T201
        return
    for form in FORMS:
        way = Way(
            name=f"wasm32 Node {form}",
            triple="",
            emulator=(node,),
            program=Path(__file__).with_suffix(".mjs"),
            level=str(wasm_module(context=context) / form),
        )
        yield way
        yield replace(way, name=f"{way.name}, alone", batch=1)
        if CHROMIUM:
            yield replace(way, name=f"wasm32 Chromium {form}", emulator=("env", f"CHROMIUM={CHROMIUM}", node))


def emulator_of(arch: str, context: HostContext) -> Sequence[str | Path] | None:
    """Nothing for this machine's own processor; ``None``: there is no emulator."""
    if arch == "x86_64":
        return ()
    try:
        return find_emulator(arch, context=context).command(EMULATED[arch])
    except MissingToolError as missing:
        print(f"not run: {arch} ({missing.message}; {missing.hint})")  # noqa: T201
        return None


def compiled(program: Path, target: str) -> None:
    own = Path(__file__).with_suffix(".cc")
    static = ("-static",) if "musl" in target else ()
    files = {**session_sources(), **dict(sources()), own.name: own.read_text(encoding="utf-8")}
    files.pop("kernels.cc")
    compile_apart(files, program, "-O2", *CPUS.get(target, ()), *static, by=(*ZIG, target))


if __name__ == "__main__":
    main()
