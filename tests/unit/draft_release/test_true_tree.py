"""1.21.0's own tree, altered as another release might have it."""

import shutil
from pathlib import Path

import pytest
from bin.draft_release import Tree, bring, try_patch
from tests.support.altered_tree import VERSION, alter

from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.sources.tree import source_tree
from edgepack.plugins.context import HostContext

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.tools("patch", "apt-get")]


def test_an_altered_tree_is_read_for_what_it_is(shared_context: HostContext, tmp_path: Path) -> None:
    own = source_tree(RELEASE.catalogue, context=shared_context).onnxruntime
    shutil.copytree(own, tmp_path / "tree", symlinks=True)
    alter(tmp_path / "tree")
    skip = RELEASE.catalogue.parts["onnxruntime"].skip
    known, new = Tree(folder=own, skip=skip), bring(tmp_path / "tree", skip=skip, work_dir=tmp_path)
    assert new.version == VERSION
    places = [try_patch(patch, known, new) for patch in (*RELEASE.overlay, *RELEASE.patches)]
    assert {place.patch.name: (place.state, place.file) for place in places if place.state != "fits"} == {
        "lean logging": ("renamed", "core/common/logging/macros.h"),
        "what failed checks call": ("moved", "core/common/final_message.cc"),
        "protobuf messages that are neither read nor written": ("generated", "onnx/onnx-ml.pb.cc"),
        "sizes of elements by number": ("moved", "core/framework/element_size.cc"),
    }
    assert next(place.renamed for place in places if place.renamed) == {"OutputIsEnabled": "IsOutputEnabled"}
