"""1.21.0's own tree, altered as another release might have it."""

import shutil
from pathlib import Path

import pytest
from bin.draft_release.survey import survey
from bin.draft_release.tree import Tree, bring
from tests.support.altered_tree import VERSION, alter

from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.sources.tree import source_tree
from edgepack.plugins.context import HostContext

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_an_altered_tree_is_read_for_what_it_is(shared_context: HostContext, tmp_path: Path) -> None:
    own = source_tree(RELEASE.catalogue, context=shared_context).onnxruntime
    shutil.copytree(own, tmp_path / "tree", symlinks=True)
    alter(tmp_path / "tree")
    skip = RELEASE.catalogue.parts["onnxruntime"].skip
    found = survey(
        RELEASE, Tree(folder=own, skip=skip), bring(tmp_path / "tree", skip=skip, work_dir=tmp_path)
    )
    assert (found.version, found.like) == (VERSION, "1.21.0")
    assert {place.patch: (place.state, place.now) for place in found.places if place.state != "fits"} == {
        "lean logging": ("renamed", "core/common/logging/macros.h"),
        "what failed checks call": ("moved", "core/common/final_message.cc"),
        "protobuf messages that are neither read nor written": ("generated", "onnx/onnx-ml.pb.cc"),
        "sizes of elements by number": ("moved", "core/framework/element_size.cc"),
    }
    assert next(place.renamed for place in found.places if place.renamed) == {
        "OutputIsEnabled": "IsOutputEnabled"
    }
    assert found.kernels.new == ("ai.onnx:RMSNormalization 23",)
    assert found.kernels.changed == ("ai.onnx:Sign: - 13",)
    assert (found.kernels.known, found.kernels.unread) == (1285, 0)
    halves = "core/providers/cpu/generator/random_"
    assert {gone.file: [each.file for each in gone.holders] for gone in found.files.gone} == {
        "core/common/helper.cc": ["core/common/final_message.cc"],
        "core/providers/cpu/generator/random.cc": [f"{halves}uniform.cc", f"{halves}normal.cc"],
        "core/providers/cpu/tensor/gather.cc": ["core/providers/cpu/tensor/gather_rows.cc"],
    }
    assert [part.name for part in found.parts] == ["re2"]
    assert not found.in_the_way and not found.left_out
