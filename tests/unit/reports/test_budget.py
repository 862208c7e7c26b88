"""A budget: refused as soon as the model alone is too large, and with a hint that is enough."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from edgepack.errors import BudgetError
from edgepack.records.report import PackageSize, Report, Verification
from edgepack.records.target import ModelOptions, Platform, Target
from edgepack.reports.budget import foretell_budget, require_budget

TARGET = Target(
    name="small",
    summary="",
    builder="linux",
    platform=Platform(os="linux", arch="x86_64"),
    model=ModelOptions(),
    download_budget=1_000_000,
)
PASSED = Verification(status="passed", texts=200, mean_cosine=0.99, p1_cosine=0.98, min_cosine=0.97)


def model(tmp_path: Path, size: int) -> Path:
    file = tmp_path / "model.ort"
    file.write_bytes(random.Random(1).randbytes(size))
    return file


@pytest.mark.parametrize(("size", "refused"), [(1_900_000, False), (2_100_000, True)])
def test_a_model_that_cannot_fit_is_refused_before_a_runtime_is_made(
    size: int, refused: bool, tmp_path: Path
) -> None:
    if not refused:
        foretell_budget(TARGET, model(tmp_path, size))
        return
    with pytest.raises(
        BudgetError, match=r"the model alone has about 2\.1 MB, target small allows 1\.0 MB"
    ) as caught:
        foretell_budget(TARGET, model(tmp_path, size))
    assert '--set budget.download="3 MB"' in str(caught.value.hint)


def test_what_compresses_well_is_not_refused_early(tmp_path: Path) -> None:
    (tmp_path / "model.ort").write_bytes(bytes(50_000_000))
    foretell_budget(TARGET, tmp_path / "model.ort")


def test_without_a_budget_everything_fits(tmp_path: Path) -> None:
    foretell_budget(replace(TARGET, download_budget=None), model(tmp_path, 5_000_000))


def report(archive: int, *packages: PackageSize) -> Report:
    return Report(
        bundle="b",
        target="small",
        parts=(),
        archive_bytes=archive,
        costs=(),
        verification=PASSED,
        packages=packages,
    )


def test_the_largest_of_archive_and_packages_counts() -> None:
    deb = PackageSize(form="deb", file="b.deb", size=1_000_000)
    require_budget(TARGET, report(1_000_000, deb))
    with pytest.raises(BudgetError, match=r"the archive has 1\.0 MB"):
        require_budget(TARGET, report(1_000_001, deb))
    with pytest.raises(BudgetError, match=r"b\.deb has 12\.0 MB") as caught:
        require_budget(TARGET, report(999_999, replace(deb, size=12_000_000)))
    assert '"13 MB"' in str(caught.value.hint)
