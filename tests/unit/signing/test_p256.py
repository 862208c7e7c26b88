"""The arithmetic that the program checks signatures with, on cases where arithmetic goes wrong; cryptography is the judge."""

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from tests.support.native import compile_together

from edgepack.console import Story
from edgepack.errors import EdgepackError
from edgepack.fetch.debian import Package, fetch_packages
from edgepack.files.archives import opened
from edgepack.plugins.context import host_context
from edgepack.runner.native.sources import source_files

MAIN = Path(__file__).parents[2] / "support/p256_main.cc"
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
P = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
HALF = 1 << 255

Case = tuple[int, int, int, int]
"""Private key, r, s, digest."""


def point_of(scalar: int) -> tuple[int, int]:
    numbers = ec.derive_private_key(scalar, ec.SECP256R1()).public_key().public_numbers()
    return numbers.x, numbers.y


def number(name: str) -> int:
    """Any, always the same, from 2 to n - 2."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest(), "big") % (N - 3) + 2


def signed(key: int, nonce: int, digest: int) -> Case:
    r = point_of(nonce)[0] % N
    return key, r, pow(nonce, -1, N) * (digest + r * key) % N, digest


def right_cases() -> Iterator[Case]:
    key, nonce = number("key"), number("nonce")
    r = point_of(nonce)[0] % N
    for digest in (0, 1, N - 1, N, N + 1, (1 << 256) - 1, number("digest")):
        yield signed(key, nonce, digest)
    yield signed(key, nonce, r * key % N)  # u1 G = u2 Q: a point is doubled
    for other in (1, 2, 3, N - 1, N - 2, HALF):
        yield signed(other, nonce, number("digest"))
        yield signed(key, other, number("digest"))
    for s in (r, N - r):  # u2 of 1 and of n - 1
        yield key, r, s, (s * nonce - r * key) % N
    s = r * key * pow(nonce - 1, -1, N) % N  # u1 of 1
    yield key, r, s, s
    _, r, s, digest = signed(key, nonce, number("digest"))
    yield key, r, N - s, digest  # the other signature of the same: ECDSA has two
    for round in range(40):
        yield signed(number(f"key {round}"), number(f"nonce {round}"), number(f"digest {round}"))


def wrong_cases() -> Iterator[Case]:
    key, nonce, digest = number("key"), number("nonce"), number("digest")
    _, r, s, _ = signed(key, nonce, digest)
    for bad in (0, N, N + 1, P, (1 << 256) - 1, r ^ 1):
        yield key, bad, s, digest
        yield key, r, bad, digest
    yield key, 0, 0, digest
    yield key, s, r, digest
    yield key, r, s, digest ^ 1
    yield key + 1, r, s, digest
    yield key, r, number("s"), -r * key % N  # u1 G = -u2 Q: the sum is no point
    yield key, r, 1, -r * key % N
    for round in range(20):
        yield number(f"key {round}"), number(f"r {round}"), number(f"s {round}"), number(f"digest {round}")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = source_files("third_party/p256/")
    folder = tmp_path_factory.mktemp("p256")
    return compile_together({**sources, MAIN.name: MAIN.read_text()}, folder / "p256", "-O1")


def verdicts(program: Path, lines: list[str]) -> list[str]:
    done = subprocess.run(
        [program], input="\n".join(lines), capture_output=True, encoding="ascii", check=True
    )
    return done.stdout.split()


def line(case: Case, point: tuple[int, int] | None = None) -> str:
    x, y = point or point_of(case[0])
    return f"{x:064x}{y:064x} {case[1]:064x}{case[2]:064x} {case[3]:064x}"


def judged(case: Case) -> str:
    key = ec.derive_private_key(case[0], ec.SECP256R1()).public_key()
    try:
        key.verify(
            encode_dss_signature(case[1], case[2]), case[3].to_bytes(32, "big"), ec.ECDSA(Prehashed(SHA256()))
        )
    except InvalidSignature:
        return "wrong"
    return "right"


@pytest.mark.tools("c++", may=("p256",))
@pytest.mark.parametrize(("cases", "verdict"), [(right_cases, "right"), (wrong_cases, "wrong")])
def test_signatures_are_judged_as_cryptography_does(program: Path, cases: object, verdict: str) -> None:
    listed: list[Case] = list(cases())  # type: ignore[operator]
    assert [judged(case) for case in listed] == [verdict] * len(listed)
    assert verdicts(program, [line(case) for case in listed]) == [verdict] * len(listed)


@pytest.mark.tools("c++", may=("p256",))
def test_keys_that_are_no_points_of_the_curve_are_refused(program: Path) -> None:
    case = signed(number("key"), number("nonce"), number("digest"))
    x, y = point_of(case[0])
    points = [
        (0, 0),
        (x, y ^ 1),
        (x ^ 1, y),
        (x, P - y + 1),
        (x, 0),
        (P, y),
        (x + P & (1 << 256) - 1, y),
        (1, 1),
    ]
    assert verdicts(program, [line(case, point) for point in points]) == ["wrong"] * len(points)
    assert verdicts(program, [line(case, (x, P - y))]) == ["wrong"], "the other key with this x"


@pytest.mark.slow
@pytest.mark.tools("apt-get")
def test_the_source_is_mbed_tlss_with_lines_left_out(tmp_path: Path) -> None:
    """Of Debian's source package; skipped where its mirror is not to be had, or has moved on to another version."""
    package = Package(suite="sid", kind="source", name="mbedtls")
    try:
        with host_context(story=Story(quiet=True)) as context:
            fetch_packages([package], tmp_path, context=context)
    except EdgepackError as error:
        pytest.skip(f"mbedtls: {error.message}")
    tarball = next(tmp_path.glob("mbedtls_3.6.7.orig.tar.*"), None)
    if tarball is None:
        pytest.skip("Debian's mirror has no mbedtls 3.6.7")
    with opened(tarball) as members:
        content = next(
            b"".join(member.chunks()) for member in members if member.path.name == "p256-m.c"
        ).decode()
    ours = (
        source_files("third_party/p256/")["third_party/p256/p256.cc"]
        .partition("*/\n#include")[2]
        .splitlines()[6:]
    )
    theirs = iter(content.splitlines())
    assert [line for line in ours if line and line not in theirs] == []
    assert len(ours) > 700
