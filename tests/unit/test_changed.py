"""Which tests a change calls for, and what is written of how long they take."""

from pathlib import Path

import pytest
from tests.support import durations
from tests.support.changed import ALWAYS, chosen_by


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ("src/edgepack/quantization/rounding.py", "tests/unit/quantization/test_rounding.py"),
        ("src/edgepack/reports/cost.py", "tests/unit/reports/test_cost.py"),
        ("plugins/edgepack_levels/__init__.py", "tests/plugins/levels/test_float_levels.py"),
        ("tests/support/berts.py", "tests/unit/models/export/test_bert.py"),
        ("tests/unit/runner/conftest.py", "tests/unit/runner/test_search.py"),
        ("src/edgepack/recipes/recipes.toml", "tests/unit/recipes/test_prepare.py"),
        ("src/edgepack/runner/native/csrc/serve/parse.cc", "tests/fuzz/test_native.py"),
        ("targets/linux-x86-min.toml", "tests/unit/test_targets.py"),
        ("docs/runner.md", "tests/unit/test_pages.py"),
    ],
)
def test_a_change_calls_for_the_tests_that_reach_it(changed: str, chosen: str) -> None:
    found = chosen_by([changed])
    assert chosen in found
    assert {*ALWAYS} <= {*found}
    assert not any(each.startswith("tests/e2e/") for each in found)


def test_a_room_that_few_import_calls_for_few_tests() -> None:
    found = chosen_by(["src/edgepack/quantization/rounding.py"])
    assert "tests/unit/files/test_store.py" not in found
    assert "tests/unit/runner/test_search.py" not in found


def test_a_changed_test_on_bundles_is_chosen() -> None:
    assert "tests/e2e/test_native.py" in chosen_by(["tests/e2e/test_native.py"])


def test_what_all_rest_on_calls_for_all() -> None:
    assert "tests/e2e/test_native.py" in chosen_by(["pyproject.toml"])


def test_the_table_of_durations_is_in_order_and_without_what_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "durations.txt"
    monkeypatch.setattr(durations, "TABLE", table)
    here = "tests/unit/test_changed.py"
    durations.write_table(
        {here: 1.25, "tests/unit/test_gone.py": 9.0, "tests/conftest.py": 30.0, "setup.py": 0.01}
    )
    assert table.read_text() == f"   30.0 tests/conftest.py\n    1.2 {here}\n"
    assert durations.recorded() == {"tests/conftest.py": 30.0, here: 1.2}


def test_every_file_of_the_table_is_there() -> None:
    assert all((durations.ROOT / name).is_file() for name in durations.recorded())
