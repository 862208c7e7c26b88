"""What a bundle says it holds, against what the linker says went into its files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.quick import quick

from edgepack.files.store import ENTRY_FILE, default_root
from edgepack.foundry.link.postlink import MAP, linked_files
from edgepack.foundry.linkmap import Piece, read_link_map
from edgepack.licenses.components import header_components, linked_component
from edgepack.licenses.vulnerabilities import known_vulnerabilities
from edgepack.operators.config import parse_config
from edgepack.records.bundle import Bundle
from edgepack.records.operators import Operator

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]
SEEN = {
    "date": "4date",
    "eigen": "5Eigen",
    "flatbuffers": "11flatbuffers",
    "gsl": "3gsl",
    "onnx": "4onnx",
    "safeint": "7SafeInt",
}
"""Header-only components → what their functions' names hold. Those of the others (json, mp11) are inlined wherever they are used."""


def maps_of(bundle: Bundle) -> Iterator[list[Piece]]:
    """The linker's maps of the bundle's own programs and libraries, which the store has beside each."""
    digests = {file["sha256"] for file in bundle.manifest["files"]}
    for map_file in sorted(default_root().glob(f"*/*/{MAP}")):
        entry = json.loads((map_file.parent / ENTRY_FILE).read_text())
        if any(sha256 in digests for name, (_, sha256) in entry.items() if "/" not in name):
            yield list(read_link_map(map_file))


def operators_of(bundle: Bundle) -> frozenset[Operator]:
    return parse_config("\n".join(bundle.manifest["runtime"]["operators"])).kernels


def bill_of(bundle: Bundle) -> dict[str, Any]:
    return dict(json.loads((bundle.directory / "LICENSES/sbom.cdx.json").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["native_bundle", "frozen_bundle"])
def test_everything_that_was_linked_is_named_and_nothing_else(
    name: str, request: pytest.FixtureRequest
) -> None:
    bundle: Bundle = request.getfixturevalue(name)
    claimed = {each["name"] for each in bill_of(bundle)["components"]}
    maps = list(maps_of(bundle))
    assert maps, "the store has the map of what it linked"
    files = {file for pieces in maps for file in linked_files(pieces)}
    unknown = {file for file in files if linked_component(file) is None}
    assert unknown == set(), "a new upstream source: name it in src/edgepack/licenses/components.toml"
    linked = {linked_component(file) for file in files}
    assert linked <= claimed
    whole = {
        "abseil",
        "onnxruntime",
        "protobuf",
        "re2",
        "libc++",
        "libc++abi",
        "libunwind",
        "zig-compiler-rt",
        "glibc-start",
    }
    assert claimed & whole == linked & whole
    operators = {f"{each.domain}:{each.name}" for each in operators_of(bundle)}
    for known in known_vulnerabilities():
        state = known.analysis(bundle.manifest["runtime"]["kind"], operators)["state"]
        if known.objects:
            assert bool(known.linked(files)) == (state == "in_triage"), f"{known.id}: {state}"
    sections = " ".join(piece.section for pieces in maps for piece in pieces)
    assert claimed & header_components() == header_components()
    assert {component for component, word in SEEN.items() if word not in sections} == set()


@pytest.mark.parametrize("name", quick(["native_bundle", "frozen_bundle", "web_bundle"], "native_bundle"))
def test_the_bill_and_the_licences_name_the_same(name: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(name).directory / "LICENSES"
    text = (folder / "sbom.cdx.json").read_text()
    components = [each for each in json.loads(text)["components"] if each["type"] != "file"]
    noticed = {
        line.split()[0] for line in (folder / "NOTICES.txt").read_text().splitlines() if ".txt" in line
    }
    assert {each["name"] for each in components} == noticed
    assert [each["name"] for each in components if each.get("version") is None] == []
    assert [each["name"] for each in components if not each.get("licenses")] == []
