"""What the kit cannot know: what its own clients want of the package."""

from dataclasses import replace
from pathlib import Path

import pytest
from edgepack_acme.package import create

from edgepack import api

TARGET = api.Target(
    name="kiosk",
    summary="",
    builder="linux",
    platform=api.Platform(os="linux", arch="x86_64"),
    model=api.ModelOptions(),
    version="1.2",
)


def test_it_is_named_for_bundle_and_version(tmp_path: Path) -> None:
    bundle = api.Bundle(directory=tmp_path, manifest={"name": "minilm"})
    assert create(TARGET).file_name(bundle) == "minilm-1.2.acme.zip"


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(api.UsageError, match="is no version"):
        create(replace(TARGET, version="new"))
