"""The memory budget: what is run under which limit, and what is said when it is not enough."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from edgepack.context import BuildContext
from edgepack.errors import BudgetError, ProofError
from edgepack.records.bundle import Bundle
from edgepack.records.report import Memory
from edgepack.records.target import ModelOptions, Platform, Target
from edgepack.verifier.confined.limits import RunLimits
from edgepack.verifier.confined.program import Ended
from edgepack.verifier.memory import CHARACTERS, STACK, long_texts, measure_memory, worst_texts

FILES = 20_000_000
TARGET = Target(
    name="small",
    summary="",
    builder="linux",
    platform=Platform(os="linux", arch="x86_64"),
    model=ModelOptions(),
    memory_budget=100_000_000,
    memory_threads=2,
)


@dataclass
class Host:
    """Runs no program: its data is ``needed`` bytes, its peak is as many as its longest text may have tokens, in megabytes."""

    work_dir: Path
    needed: int = 0
    broken: bool = False
    runs: list[tuple[list[str], RunLimits]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def run(
        self,
        bundle: Bundle,
        command: Sequence[str | Path],
        input: str = "",
        *,
        limits: RunLimits | None = None,
    ) -> Ended:
        assert limits is not None
        self.runs.append((list(map(str, command)), limits))
        assert input.startswith('{"text": ')
        if self.broken or (limits.data is not None and limits.data < self.needed):
            return Ended(output="", messages="error: the model does not run\n", code=5)
        cut = [int(str(word).partition("=")[2]) for word in command if str(word).startswith("--max-length=")]
        return Ended(output="", messages="", code=0, peak=(cut or [64])[0] * 1_000_000)

    def note(self, message: str) -> None:
        self.said.append(message)


def bundle(tmp_path: Path, **changes: Any) -> Bundle:
    program = tmp_path / "embed"
    program.write_bytes(Path(sys.executable).resolve().read_bytes()[:64])
    manifest: dict[str, Any] = {
        "name": "b",
        "model": {"max_length": 64},
        "runner": {"program": "embed"},
        "runtime": None,
        "files": [{"path": "embed", "size": FILES, "mode": "0755"}],
        **changes,
    }
    return Bundle(directory=tmp_path, manifest=manifest)


def measured(bundle: Bundle, host: Host, target: Target = TARGET) -> Memory | None:
    return measure_memory(bundle, target, runner=host, context=cast("BuildContext", host))


def test_without_a_budget_nothing_is_run(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert measured(bundle(tmp_path), host, replace(TARGET, memory_budget=None)) is None
    assert host.runs == []


def test_the_worst_case_runs_under_a_limit_that_the_files_count_against(tmp_path: Path) -> None:
    host = Host(tmp_path)
    found = measured(bundle(tmp_path), host)
    assert found is not None
    limited = [(words, limits) for words, limits in host.runs if limits.data is not None]
    assert [(limits.data, limits.stack) for _, limits in limited] == [(80_000_000, STACK)]
    assert limited[0][0][-2:] == ["--threads=2", "--batch-size=32"]
    assert (found.worst, found.tokens, found.threads) == (64_000_000, 64, 2)
    assert [(each.tokens, each.peak) for each in found.lengths] == [
        (16, 16_000_000),
        (32, 32_000_000),
        (64, 64_000_000),
    ]
    assert found.enforced_by == "RLIMIT_DATA"


def test_shorter_texts_on_devices_are_a_smaller_worst_case(tmp_path: Path) -> None:
    host = Host(tmp_path)
    found = measured(bundle(tmp_path), host, replace(TARGET, memory_length=24))
    assert found is not None
    assert found.tokens == 24
    assert [each.tokens for each in found.lengths] == [16, 24]
    assert host.runs[0][0][-1] == "--max-length=24"


@pytest.mark.parametrize("budget", [100_000_000, 10_000_000])
def test_over_budget_fails_and_the_hint_names_what_is_enough(budget: int, tmp_path: Path) -> None:
    host = Host(tmp_path, needed=90_000_000)
    with pytest.raises(BudgetError, match=rf"does not run in {budget / 1e6:.1f} MB of memory") as caught:
        measured(bundle(tmp_path), host, replace(TARGET, memory_budget=budget))
    hint = str(caught.value.hint)
    enough = int(hint.partition('budget.memory="')[2].partition(" MB")[0])
    assert 90 <= enough - FILES / 1e6 < 90 * 1.15 + 5
    assert "budget.threads=1" in hint


def test_a_program_that_fails_without_a_limit_is_no_matter_of_budgets(tmp_path: Path) -> None:
    with pytest.raises(ProofError, match="the model does not run"):
        measured(bundle(tmp_path), Host(tmp_path, broken=True))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"runtime": {"provider": {"name": "CUDA"}}}, "GPU"),
        (
            {
                "runner": {"program": "embed.js", "command": ["python3", "embed.js"]},
                "target": {"platform": {"has": ["python3"]}},
            },
            "is run by python3",
        ),
        ({"runner": {"program": "embed.exe", "command": None}}, "the device alone"),
    ],
)
def test_what_does_not_run_here_itself_is_not_measured(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    host = Host(tmp_path)
    found = measured(bundle(tmp_path, **changes), host)
    assert found is not None
    assert reason in found.reason
    assert host.runs == []
    assert host.said == [f"memory not measured: {found.reason}"]


def test_another_processors_program_is_not_measured(tmp_path: Path) -> None:
    made = bundle(tmp_path)
    header = bytearray((tmp_path / "embed").read_bytes())
    header[18] = 40  # 32-bit Arm
    (tmp_path / "embed").write_bytes(header)
    found = measured(made, Host(tmp_path))
    assert found is not None
    assert "this host is" in found.reason


def test_the_longest_texts_are_long_enough_and_differ() -> None:
    texts = long_texts(256, 4)
    assert len(set(texts)) == 4
    assert all(len(text) >= 256 * CHARACTERS for text in texts)
    assert len(worst_texts(16, 1)) > 400
