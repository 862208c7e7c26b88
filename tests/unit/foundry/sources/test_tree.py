"""What is compiled is what was unpacked: of a damaged source another arithmetic had been linked under the archive's digest, and verified."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from edgepack.errors import ToolError
from edgepack.files.store import sha256_of
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.sources.tree import COMPLETE, SourceTree, require_whole


@pytest.mark.parametrize("change", [lambda file: file.write_text("1.29"), Path.unlink])
def test_a_damaged_source_is_not_compiled(change: Callable[[Path], object], tmp_path: Path) -> None:
    file = tmp_path / "onnxruntime/erf.cpp"
    file.parent.mkdir()
    file.write_text("1.28")
    (tmp_path / COMPLETE).write_text(json.dumps({"onnxruntime/erf.cpp": sha256_of(file)}))
    tree = SourceTree(folder=tmp_path, catalogue=RELEASE.catalogue, key="", digests={})
    require_whole(tree)
    change(file)
    with pytest.raises(ToolError, match=r"erf\.cpp is not as it was unpacked"):
        require_whole(tree)
    assert not (tmp_path / COMPLETE).exists()
