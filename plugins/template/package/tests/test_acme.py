"""What the kit cannot know: what its own clients want of the package."""

from pathlib import Path

import pytest
from edgepack_acme.package import Zip

from edgepack import api


def test_it_is_named_for_bundle_and_version(tmp_path: Path) -> None:
    bundle = api.Bundle(directory=tmp_path, manifest={"name": "minilm"})
    assert Zip().file_name(bundle, "1.2") == "minilm-1.2.acme.zip"
    with pytest.raises(api.UsageError, match="is no version"):
        Zip().file_name(bundle, "new")
