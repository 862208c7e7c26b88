"""The bundle with the native runner: one program with the runtime inside."""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.support.embed_serve import running
from tests.support.signed import key_in

from edgepack.files.elf import glibc_floor
from edgepack.files.store import Store, default_root
from edgepack.foundry.explain.sizes import explain, find_composition
from edgepack.records.bundle import Bundle
from edgepack.runtimes.find import library_in

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]


def embed(bundle: Bundle, *arguments: str | bytes, input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([bundle.program, *arguments], input=input, capture_output=True, env={}, check=False)


def test_it_is_small_and_needs_no_library(native_bundle: Bundle) -> None:
    assert not (native_bundle.directory / "lib").exists()
    assert (
        native_bundle.manifest["runtime"]["library"] == native_bundle.manifest["runner"]["program"] == "embed"
    )
    floor = glibc_floor(native_bundle.program)
    assert floor is not None
    assert tuple(map(int, floor.split("."))) <= (2, 28)


def test_what_the_program_is_made_of_is_known(native_bundle: Bundle, tmp_path: Path) -> None:
    program = library_in(native_bundle.directory, work_dir=tmp_path)
    assert program == native_bundle.program
    found = explain(program, find_composition(program, Store(root=default_root())))
    assert sum(row.bytes for row in found.areas) == found.bytes == program.stat().st_size
    areas = {row.name for row in found.areas}
    assert {"program", "MLAS", "kernels", "libc"} <= areas and "" not in areas
    assert "com.microsoft:MatMulIntegerToFloat" in {row.name for row in found.operators}
    assert not [member for member in found.members if member.name.startswith("/")]


@pytest.mark.slow
def test_vectors_are_those_of_the_frozen_program(native_bundle: Bundle, frozen_bundle: Bundle) -> None:
    texts = (Path(__file__).parents[2] / "src/edgepack/verifier/data/texts.txt").read_bytes()
    for arguments in (("--out", "raw"), ("--out", "jsonl"), ("--out", "jsonl", "--dtype", "int8")):
        native = embed(native_bundle, *arguments, input=texts)
        frozen = embed(frozen_bundle, *arguments, input=texts)
        assert native.returncode == frozen.returncode == 0
        assert native.stdout == frozen.stdout
    lines = b"".join(texts.splitlines(keepends=True)[:100])
    found = [
        embed(each, "search", "--json", "a man eats", input=lines) for each in (native_bundle, frozen_bundle)
    ]
    assert found[0].returncode == 0, found[0].stderr
    assert found[0].stdout == found[1].stdout
    vectors = np.frombuffer(
        embed(native_bundle, "--out", "raw", input=b"a man eats\n" + lines).stdout, "<f4"
    ).reshape(-1, 384)
    nearest = np.argsort(-(vectors[1:] @ vectors[0]))[:10] + 1
    assert [each["line"] for each in json.loads(found[0].stdout)["nearest"]] == nearest.tolist()


def test_a_damaged_model_is_an_error_and_not_a_crash(native_bundle: Bundle, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", native_bundle.directory, copy], check=True)
    model = copy / "model/model.ort"
    content = bytearray(model.read_bytes())
    content[:4096] = bytes(4096)
    model.chmod(0o644)
    model.write_bytes(content)
    done = subprocess.run([copy / "embed", "a cat"], capture_output=True, env={}, check=False)
    assert done.returncode == 5
    assert done.stderr.startswith(b"error: ")
    assert subprocess.run([copy / "embed", "--self-test"], capture_output=True, check=False).returncode == 4


def test_a_program_that_was_built_without_checks_no_signature(native_bundle: Bundle, tmp_path: Path) -> None:
    """It refuses: whoever asks for a signature gets no vectors without."""
    key_in(tmp_path)
    done = embed(native_bundle, "--require-signature", str(tmp_path / "key.pub"), "a cat")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"error: this program cannot check signatures" in done.stderr
    assert embed(native_bundle, "--check").stdout.startswith(b"check passed: ")


@pytest.mark.slow
def test_memory_stays_flat_and_a_long_line_is_a_text(native_bundle: Bundle) -> None:
    def peak(lines: bytes) -> int:
        with subprocess.Popen(
            [native_bundle.program, "--out", "raw", "--max-length", "8"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as program:
            out, _ = program.communicate(lines)
            assert len(out) == 384 * 4 * lines.count(b"\n")
        return resident(native_bundle, lines)

    def resident(bundle: Bundle, lines: bytes) -> int:
        reader, writer = os.pipe()
        child = os.posix_spawn(
            bundle.program,
            [str(bundle.program), "--out", "raw", "--max-length", "8", "--output", "/dev/null"],
            {},
            file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0), (os.POSIX_SPAWN_CLOSE, writer)],
        )
        os.close(reader)
        with os.fdopen(writer, "wb") as stream:
            stream.write(lines)
        _, status, usage = os.wait4(child, 0)
        assert status == 0
        return usage.ru_maxrss

    few = peak(b"a cat\n" * 200)
    assert peak(b"a cat\n" * 3000) < few * 1.1
    # Ten megabytes in one line: what is read of it, and nothing else, is added.
    assert resident(native_bundle, b"word " * 2_000_000 + b"\n") < few + 60_000


def test_bytes_of_any_kind_are_texts(native_bundle: Bundle) -> None:
    noise = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(200))
    done = embed(native_bundle, "--out", "jsonl", "--max-length", "16", input=noise)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == noise.count(b"\n") + 1
    assert all(len(json.loads(line)["embedding"]) == 384 for line in done.stdout.splitlines())


@pytest.mark.slow
def test_a_program_with_a_server_is_small_and_answers(library_bundle: Bundle) -> None:
    program = library_bundle.program
    assert library_bundle.manifest["runner"]["serve"] is True
    assert program.stat().st_size < 1_600_000
    with running(library_bundle.directory) as server:
        vectors = [row["embedding"] for row in server.embed(["A man is eating food."]).json["data"]]
        expected = np.frombuffer(
            embed(library_bundle, "--out", "raw", input=b"A man is eating food.\n").stdout, "<f4"
        )
        assert np.array(vectors[0], np.float32).tobytes() == expected.tobytes()
        pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
        assert pages * 4096 < 25_000_000
        server.process.terminate()
        assert server.process.wait() == 0
