"""CycloneDX's own library, on the bills of materials of real bundles."""

from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(
    "name", ["native_bundle", "frozen_bundle", pytest.param("web_bundle", marks=pytest.mark.slow)]
)
def test_the_bill_is_valid(name: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(name).directory / "LICENSES"
    assert (
        JsonStrictValidator(SchemaVersion.V1_6).validate_str((folder / "sbom.cdx.json").read_text()) is None
    )
