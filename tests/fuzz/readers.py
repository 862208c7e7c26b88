"""What edgepack reads of strangers, and a mutator: a reader answers, or says an error for people."""

import _struct
import io
import json
import random
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import zstandard

from edgepack.bundles.archive import unpack_bundle
from edgepack.bundles.manifest import read_manifest
from edgepack.errors import EdgepackError
from edgepack.files.elf import opened_libraries, read_needs, soname
from edgepack.files.hardening import weaknesses
from edgepack.models.read.safetensors import open_tensors
from edgepack.operators.config import parse_config
from edgepack.targets import read_target
from tests.fuzz import signatures
from tests.fuzz.rounds import Campaign, for_seconds

ODD = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1)
WORDS = (
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"-1",
    b"1e999",
    b"\\ud800",
    b"\0",
    b"\xff",
    b"../",
    b"/",
)


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """One to four small changes."""
    made = bytearray(seed)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(made) + 1)
        kind = chance.randrange(6)
        if kind == 0 and at < len(made):
            made[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del made[at:]
        elif kind == 2:
            del made[at : at + chance.randint(1, 64)]
        elif kind == 3:
            made[at:at] = chance.choice(WORDS)
        elif kind == 4:
            width = chance.choice((1, 2, 4, 8))
            made[at : at + width] = (chance.choice(ODD) & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        elif kind == 5:
            other = chance.randrange(len(made) + 1)
            made[at:at] = made[other : other + chance.randint(1, 64)]
    return bytes(made)


Change = Callable[[bytes, random.Random], bytes]


def try_reader(
    read: Callable[[Path], object],
    seed: bytes,
    file: Path,
    *,
    rounds: Iterable[object],
    number: int,
    change: Change = mutated,
) -> int:
    """How many inputs were tried. Raises ``AssertionError`` with the first that was answered by anything but an error for people."""
    chance, runs = random.Random(number), 0
    for _ in rounds:
        content = change(seed, chance) if runs else seed
        file.write_bytes(content)
        try:
            read(file)
        except EdgepackError:
            pass
        except Exception as error:
            kept = Path(tempfile.gettempdir()) / f"edgepack-fuzz-{file.name}"
            kept.write_bytes(content)
            raise AssertionError(
                f"{type(error).__name__}: {error}; input {runs} of seed {number} is kept at {kept}"
            ) from error
        runs += 1
    return runs


def read_elf(file: Path) -> None:
    for read in (read_needs, soname, opened_libraries, weaknesses):
        read(file)


def read_archive(file: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        unpack_bundle(file, Path(folder) / "bundle")


READERS: Mapping[str, Callable[[Path], object]] = {
    **signatures.READERS,
    "manifest.json": lambda file: read_manifest(file.parent),
    "bundle.tar.zst": read_archive,
    "bundle.tar": read_archive,
    "bundle.whl": read_archive,
    "model.safetensors": open_tensors,
    "pytorch_model.bin": open_tensors,
    "operators.config": lambda file: parse_config(file.read_text(encoding="utf-8", errors="replace")),
    "target.toml": lambda file: read_target(file, origin="a test"),
    "library.so": read_elf,
}


def seeds(library: Path) -> Mapping[str, bytes]:
    """A sound input for each reader; ``library`` is any ELF file."""
    from tests.fuzz.tables import small_manifest

    manifest = small_manifest()
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name, content in (("a/manifest.json", manifest), ("a/model/" + "m" * 120, bytes(600))):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("a/manifest.json", manifest)
        zipped.writestr("a/empty/", b"")
    checkpoint = io.BytesIO()
    with zipfile.ZipFile(checkpoint, "w") as zipped:
        zipped.writestr("m/data.pkl", PICKLE)
        zipped.writestr("m/data/0", bytes(16))
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}, "__metadata__": {"a": "b"}}
    )
    return {
        **signatures.seeds(),
        "manifest.json": manifest,
        "bundle.tar": tar.getvalue(),
        "bundle.tar.zst": zstandard.compress(tar.getvalue()),
        "bundle.whl": wheel.getvalue(),
        "model.safetensors": struct.pack("<Q", len(header)) + header.encode() + bytes(16),
        "pytorch_model.bin": checkpoint.getvalue(),
        "operators.config": b'ai.onnx;13;Add{"inputs": {"0": ["float"]}},MatMul\ncom.microsoft;1;Gelu\n',
        "target.toml": TARGET.encode(),
        "library.so": library.read_bytes(),
    }


PICKLE = (
    b"\x80\x02}(X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
    b"0X\x03\0\0\0cpuK\x04tQK\0K\x02K\x02\x86K\x02K\x01\x86\x89ccollections\nOrderedDict\n)RtRu."
)
"""As PyTorch writes it: a tensor ``w`` of 2 · 2 numbers."""
TARGET = """
schema = 1
summary = "a device"
builder = "linux"
[platform]
os = "linux"
arch = "x86_64"
glibc = "2.28"
isa = ["avx2"]
[model]
recipe = "int8"
min_cosine = 0.98
prompts = { query = "query: " }
[budget]
download = "30 MB"
[options]
runner = "native"
"""


def campaigns(folder: Path) -> Iterator[Campaign]:
    for name, seed in seeds(Path(_struct.__file__)).items():
        yield reader_campaign(name, READERS[name], seed, folder / name)


def reader_campaign(
    said: str,
    read: Callable[[Path], object],
    seed: bytes,
    file: Path,
    change: Change = mutated,
    part: int = 1,
) -> Campaign:
    """In a part of the time."""

    def run(seconds: float, number: int) -> int:
        rounds = for_seconds(seconds / part)
        return try_reader(read, seed, file, rounds=rounds, number=number, change=change)

    return said, run
