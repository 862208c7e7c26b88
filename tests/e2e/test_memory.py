"""Memory on devices: a stream of texts of any length under a limit, and a build whose worst case is over its budget."""

import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.support.command import edgepack

from edgepack.records.bundle import Bundle
from edgepack.verifier.memory import STACK

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3600)]
LIMIT = 256_000_000
TEXTS, DISTINCT, LONGEST = 10_000, 1_000, 400


@pytest.mark.parametrize("name", ["native_bundle", "frozen_bundle"])
def test_ten_thousand_texts_of_any_length_in_256_mb(name: str, request: pytest.FixtureRequest) -> None:
    bundle: Bundle = request.getfixturevalue(name)
    chance = random.Random(7)
    words = [
        "a",
        "man",
        "cat",
        "Katze",
        "猫",
        "sits",
        "überall",
        "quickly",
        "embeddings",
        "12.5",
        "мир",
        "सेतु",
        "of",
        "the",
        "river",
    ]
    known = [" ".join(chance.choices(words, k=round(LONGEST ** chance.random()))) for _ in range(DISTINCT)]
    alone = vectors([bundle.program, "--out=raw", "--batch-size=1"], known)
    chosen = [chance.randrange(DISTINCT) for _ in range(TEXTS)]
    files = sum(int(file["size"]) for file in bundle.manifest["files"])
    limits = ["prlimit", f"--data={LIMIT - files}", f"--stack={STACK}", "--"]
    made = vectors(
        [*limits, bundle.program, "--out=raw", "--batch-size=64", "--threads=4"],
        [known[at] for at in chosen],
    )
    assert np.abs(made - alone[chosen]).max() < 1e-5


def vectors(command: list[str | Path], texts: list[str]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    lines = "".join(f"{text}\n" for text in texts).encode()
    done = subprocess.run(command, input=lines, capture_output=True, env={}, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, "<f4").reshape(len(texts), -1)


def test_a_build_over_its_memory_budget_ends_with_what_is_enough(tmp_path: Path) -> None:
    done = edgepack("bundle", "-t", "linux-x86-min", "--set", "budget.memory=40 MB", "-o", str(tmp_path))
    assert done.returncode != 0
    error, hint = done.stderr.strip().splitlines()[-2:]
    assert error.startswith("error: the program's worst case does not run in 40.0 MB of memory")
    assert "budget.threads=1" in hint
    assert list(tmp_path.iterdir()) == []
