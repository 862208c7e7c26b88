"""Names that Debian takes."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.updates import two_bundles

from edgepack.records.bundle import Bundle
from edgepack_deb.package import VERSION, DebianPackage

NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+_1_amd64\.deb")
"""As deb-control(5) has them."""


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return two_bundles(tmp_path)[0]


def file_name(bundle: Bundle, name: str) -> str:
    return DebianPackage(version="1").file_name(
        replace(bundle, manifest={**bundle.manifest, "name": f"{name}-linux-x86-min"})
    )


def test_every_bundle_has_a_name_that_dpkg_takes(bundle: Bundle) -> None:
    names = ["all-MiniLM-L6-v2", "_my-model", "\u6a21\u578b", "\u6570\u636e", "\xe9t\xe9", "\u0415"]
    found = [file_name(bundle, name) for name in names]
    assert found[:2] == ["all-minilm-l6-v2-linux-x86-min_1_amd64.deb", "my-model-linux-x86-min_1_amd64.deb"]
    assert all(NAME.fullmatch(each) for each in found)
    assert len(set(found)) == len(names)


@pytest.mark.parametrize(
    ("version", "right"), [("1", True), ("1.0-2", True), ("1.0-", False), ("\u0661.0", False)]
)
def test_a_version_is_one_of_debians(version: str, *, right: bool) -> None:
    assert bool(VERSION.fullmatch(version)) == right
