"""CycloneDX's own library, on bills of materials."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from edgepack.bundles.sbom import package_url
from edgepack.licenses.components import known_components
from edgepack.records.bundle import Bundle
from edgepack.records.runtime import RuntimeArtifact

pytestmark = pytest.mark.tools("gcc")


def test_cyclonedx_s_own_library_finds_it_valid(bundle: Bundle) -> None:
    text = (bundle.directory / "LICENSES/sbom.cdx.json").read_text()
    judge = JsonStrictValidator(SchemaVersion.V1_6)
    assert judge.validate_str(text) is None
    # The judge can say no.
    assert judge.validate_str(text.replace('"type": "library"', '"type": "thing"')) is not None


@pytest.mark.parametrize("kind", ["minimal", "full"])
def test_what_is_published_of_a_component_is_valid_too(
    assembled: Callable[..., Bundle], runtime: RuntimeArtifact, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "onnx-1.17.0.txt").write_text("a licence\n")
    licenses = (*runtime.licenses, tmp_path / "onnx-1.17.0.txt")
    folder = assembled(tmp_path / "out", runtime=replace(runtime, licenses=licenses, kind=kind)).directory
    text = (folder / "LICENSES/sbom.cdx.json").read_text()
    assert '"vulnerabilities"' in text
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


@pytest.mark.parametrize("version", ["1.2.3", "unknown"])
def test_every_package_url_is_one(version: str) -> None:
    for known in known_components().values():
        url = PackageURL.from_string(package_url(known.purl, version))
        assert (url.version is None) == (version == "unknown")
        assert url.name and "{" not in url.to_string()
