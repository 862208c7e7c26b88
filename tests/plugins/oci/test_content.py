"""What is pushed: the documents as their specifications want them, the same bytes for the same bundle."""

import json
import struct
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edgepack.api.axes import TarEntry, write_tgz
from edgepack.bundles.manifest import open_bundle
from edgepack.errors import OutputError, UsageError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack_oci.content import layers as content_layers
from edgepack_oci.content import libc
from edgepack_oci.content.documents import BUNDLE, MODELPACK, MODELPACK_CONFIG, PLATFORM
from edgepack_oci.content.layers import bundle_layers
from edgepack_oci.content.libc import why_no_image
from edgepack_oci.content.reference import parse_reference
from edgepack_oci.content.release import Release, make_release

MODELS = "application/vnd.cncf.model."


def released(context: HostContext, *folders: Path, tag: str = "1.0") -> Release:
    return make_release([open_bundle(folder) for folder in folders], tag, context=context)


def names_in(layer: Path) -> list[str]:
    with tarfile.open(layer) as tar:
        return [member.name for member in tar]


def test_each_layer_has_one_part_and_the_folders_that_lead_to_it(context: HostContext, bundle: Path) -> None:
    layers = {layer.part: layer for layer in bundle_layers(open_bundle(bundle), context=context)}
    assert {part: names_in(layer.file) for part, layer in layers.items()} == {
        "weights": ["models", "models/model", "models/model/model.onnx", "models/model/tokenizer.bin"],
        "code": [
            "models",
            "models/lib",
            "models/embed",
            "models/lib/libonnxruntime.so",
            "models/lib/libonnxruntime.so.1",
        ],
        "licenses": ["models", "models/LICENSES", "models/LICENSES/NOTICES.txt"],
        "manifest": ["models", "models/golden.json", "models/manifest.json"],
    }
    with tarfile.open(layers["code"].file) as tar:
        found = {member.name: member for member in tar}
    assert found["models/embed"].mode == 0o755
    assert found["models/lib/libonnxruntime.so.1"].linkname == "libonnxruntime.so"
    assert {(member.uid, member.mtime) for member in found.values()} == {(0, 315532800)}


def test_the_same_bundle_has_the_same_digests_and_a_signature_changes_one_layer(
    context: HostContext, bundle: Path, tmp_path: Path
) -> None:
    from tests.support.signed import key_in, write_small_bundle

    from edgepack.signing.signatures import sign_path

    first = released(context, bundle)
    with_other_store = HostContext(
        work_dir=context.work_dir,
        offline=True,
        story=context.story,
        plugins=context.plugins,
        store=type(context.store)(root=tmp_path / "other-store"),
    )
    again = released(with_other_store, write_small_bundle(tmp_path / "elsewhere" / "copy"))
    assert {tag: made.digest for tag, made in first.tags.items()} == {
        tag: made.digest for tag, made in again.tags.items()
    }
    sign_path(bundle, key_in(tmp_path), context=context)
    signed = released(context, bundle)
    changed = set(signed.layers) - set(first.layers)
    assert [signed.layers[digest].part for digest in changed] == ["manifest"]


def test_a_layer_of_files_that_were_replaced_meanwhile_is_not_kept(
    context: HostContext, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was another bundle's under this one's key: what was pushed later could not be pulled, for good."""
    opened, program = open_bundle(bundle), bundle / "embed"
    before = program.read_bytes()

    def replaced(out: Any, entries: Sequence[TarEntry]) -> str:
        if any(entry.source == program for entry in entries):
            program.write_bytes(b"another")
        return write_tgz(out, entries)

    with monkeypatch.context() as patch:
        patch.setattr(content_layers, "write_tgz", replaced)
        with pytest.raises(OutputError, match="was changed while it was read"):
            bundle_layers(opened, context=context)
    program.write_bytes(before)
    code = next(layer for layer in bundle_layers(opened, context=context) if layer.part == "code")
    with tarfile.open(code.file) as tar:
        found = tar.extractfile("models/embed")
        assert found is not None and found.read() == before


def test_a_modelpack_is_as_the_specification_has_it(context: HostContext, bundle: Path) -> None:
    made = released(context, bundle)
    manifest = json.loads(made.tags["1.0-modelpack"].content)
    assert manifest["artifactType"] == MODELPACK == f"{MODELS}manifest.v1+json"
    assert manifest["config"]["mediaType"] == MODELPACK_CONFIG == f"{MODELS}config.v1+json"
    assert [layer["mediaType"] for layer in manifest["layers"]] == [
        f"{MODELS}weight.v1.tar+gzip",
        f"{MODELS}code.v1.tar+gzip",
        f"{MODELS}doc.v1.tar+gzip",
        f"{MODELS}weight.config.v1.tar+gzip",
    ]
    assert manifest["layers"][0]["annotations"]["org.cncf.model.filepath"] == "models"
    (config,) = [json.loads(each.content) for each in made.configs if each.media_type == MODELPACK_CONFIG]
    assert config["config"]["capabilities"] == {"inputTypes": ["text"], "outputTypes": ["embedding"]}
    assert config["modelfs"] == {
        "type": "layers",
        "diffIds": [made.layers[layer["digest"]].diff_id for layer in manifest["layers"]],
    }
    assert set(config) == {"descriptor", "config", "modelfs"}


def test_the_image_has_the_same_layers_over_a_libc_and_runs_as_nobody(
    context: HostContext, bundle: Path
) -> None:
    made = released(context, bundle)
    image, model = (json.loads(each.content) for each in made.manifests)
    digests = [layer["digest"] for layer in image["layers"]]
    assert digests[1:] == [layer["digest"] for layer in model["layers"]]
    assert {layer["mediaType"] for layer in image["layers"]} == {
        "application/vnd.oci.image.layer.v1.tar+gzip"
    }
    (config,) = [json.loads(each.content) for each in made.configs if each.media_type != MODELPACK_CONFIG]
    assert config["config"]["Entrypoint"] == ["/models/embed"] and config["config"]["User"] == "65534:65534"
    assert (config["os"], config["architecture"]) == ("linux", "amd64")
    assert config["rootfs"]["diff_ids"] == [made.layers[digest].diff_id for digest in digests]


def test_an_index_has_every_platform_and_shares_what_is_the_same(
    context: HostContext, bundle: Path, other: Path
) -> None:
    made = released(context, bundle, other)
    entries = json.loads(made.tags["1.0"].content)["manifests"]
    assert [(each["platform"]["architecture"], each.get("annotations", {}).get(PLATFORM)) for each in entries] == [
        ("amd64", None), ("arm64", None), ("unknown", "linux/amd64"), ("unknown", "linux/arm64"),
    ]  # fmt: skip
    assert [list(each) for each in entries] == [
        [*("mediaType", "digest", "size"), *(("annotations",) if "annotations" in each else ()), "platform"]
        for each in entries
    ], "as Go says it again"
    assert [each["annotations"] for each in entries[2:]] == [
        {BUNDLE: "sample", PLATFORM: "linux/amd64"},
        {BUNDLE: "other", PLATFORM: "linux/arm64"},
    ]
    assert set(made.tags) == {"1.0", "1.0-modelpack-amd64", "1.0-modelpack-arm64"}
    assert sorted(layer.part for layer in made.layers.values()) == [
        "code", "code", "libc", "libc", "licenses", "manifest", "manifest", "weights",
    ]  # fmt: skip


def for_musl(folder: Path, arch: str) -> Bundle:
    opened = open_bundle(folder)
    platform = {"os": "linux", "arch": arch, "glibc": None, "libc": "musl"}
    target = {**opened.manifest["target"], "platform": platform}
    opened.program.write_bytes(program(""))
    return type(opened)(directory=folder, manifest={**opened.manifest, "target": target})


def test_32_bit_arm_is_what_docker_looks_for(context: HostContext, bundle: Path, other: Path) -> None:
    made = make_release([for_musl(bundle, "armv7l"), for_musl(other, "aarch64")], "1.0", context=context)
    images = [
        entry for entry in json.loads(made.tags["1.0"].content)["manifests"] if "annotations" not in entry
    ]
    assert [entry["platform"] for entry in images] == [
        {"architecture": "arm", "os": "linux", "variant": "v7"},
        {"architecture": "arm64", "os": "linux"},
    ]
    assert [each.platform for each in made.packed] == ["linux/arm/v7", "linux/arm64"]
    assert set(made.tags) == {"1.0", "1.0-modelpack-armv7", "1.0-modelpack-arm64"}
    (config,) = [said for each in made.configs if "variant" in (said := json.loads(each.content))]
    assert (config["architecture"], config["variant"]) == ("arm", "v7")


def test_two_bundles_of_one_platform_do_not_go_under_one_tag(context: HostContext, bundle: Path) -> None:
    with pytest.raises(UsageError, match="sample and sample are both for linux/amd64") as caught:
        released(context, bundle, bundle)
    assert caught.value.hint == "push each under a tag of its own"


@pytest.mark.parametrize(
    ("platform", "runner", "why"),
    [
        ({"os": "web", "arch": "wasm32", "glibc": None}, {}, "it is for web"),
        ({"os": "linux", "arch": "riscv64", "glibc": "2.36"}, {}, "no C library for riscv64 is pinned"),
        ({"os": "linux", "arch": "x86_64", "glibc": "2.41"}, {}, "requires glibc 2.41, and images have 2.36"),
        ({"os": "linux", "arch": "x86_64", "glibc": None, "libc": "musl"}, {}, "it is for musl"),
        ({"os": "linux", "arch": "x86_64", "glibc": "2.28"}, {"command": None}, "runs on its devices only"),
        ({"os": "linux", "arch": "aarch64", "glibc": "2.28"}, {}, ""),
    ],
)
def test_what_cannot_run_from_an_image_gets_none(
    bundle: Path, context: HostContext, platform: dict[str, str], runner: dict[str, object], why: str
) -> None:
    opened = open_bundle(bundle)
    manifest = dict(opened.manifest)
    manifest["target"] = {**manifest["target"], "platform": platform}
    manifest["runner"] = {**manifest["runner"], **runner}
    said = why_no_image(type(opened)(directory=bundle, manifest=manifest))
    assert why in said and bool(why) == bool(said)
    if why:
        made = make_release([type(opened)(directory=bundle, manifest=manifest)], "1.0", context=context)
        assert (
            list(made.tags) == ["1.0"] and json.loads(made.tags["1.0"].content)["artifactType"] == MODELPACK
        )


def program(loader: str) -> bytes:
    """An x86-64 program of no code, which the kernel starts by this loader, or without any."""
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    name = loader.encode() + b"\0"
    segment = struct.pack("<IIQQQQQQ", 3 if loader else 4, 4, 120, 120, 120, len(name), len(name), 1)
    return ident + head + segment + name


@pytest.mark.parametrize(("loader", "why"), [("", ""), ("/lib/ld-musl-x86_64.so.1", "it is for musl")])
def test_an_image_of_a_static_program_begins_with_no_c_library(
    bundle: Path, context: HostContext, loader: str, why: str
) -> None:
    opened = open_bundle(bundle)
    manifest = dict(opened.manifest)
    platform = {"os": "linux", "arch": "x86_64", "glibc": None, "libc": "musl"}
    manifest["target"] = {**manifest["target"], "platform": platform}
    opened.program.write_bytes(program(loader))
    made = make_release([type(opened)(directory=bundle, manifest=manifest)], "1.0", context=context)
    (packed,) = made.packed
    assert why in packed.why_no_image and bool(why) == bool(packed.why_no_image) == (packed.image is None)
    assert "libc" not in {layer.part for layer in made.layers.values()}


def test_the_c_library_is_of_the_version_that_is_said(tmp_path: Path) -> None:
    assert all(libc.VERSION in package.file for package in libc.PACKAGES.values())
    for name in (*libc.LIBRARIES, libc.LOADERS["aarch64"][1]):
        place = tmp_path / "lib/aarch64-linux-gnu" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    (tmp_path / libc.COPYRIGHT).parent.mkdir(parents=True)
    (tmp_path / libc.COPYRIGHT).touch()
    entries = {entry.name: entry for entry in libc._entries("aarch64", tmp_path)}
    assert entries["lib/ld-linux-aarch64.so.1"].link == "aarch64-linux-gnu/ld-linux-aarch64.so.1"
    assert entries["lib/aarch64-linux-gnu/ld-linux-aarch64.so.1"].executable
    status = entries["var/lib/dpkg/status.d/libc6"].source
    assert isinstance(status, bytes) and b"Architecture: arm64\n" in status
    assert b"Version: 2.36-9" in status


@pytest.mark.parametrize(
    ("text", "shown", "host"),
    [
        ("ghcr.io/team/embed:1.0", "ghcr.io/team/embed:1.0", "ghcr.io"),
        ("localhost:5000/embed", "localhost:5000/embed:latest", "localhost:5000"),
        ("docker.io/embed", "docker.io/library/embed:latest", "registry-1.docker.io"),
        (f"r.example/a/b:1@sha256:{'0' * 64}", f"r.example/a/b@sha256:{'0' * 64}", "r.example"),
        ("oci:dist/layout:1.0", "oci:dist/layout:1.0", ""),
        ("oci:dist/layout", "oci:dist/layout:latest", ""),
    ],
)
def test_references(text: str, shown: str, host: str) -> None:
    assert (str(parse_reference(text)), parse_reference(text).host) == (shown, host)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("team/embed:1.0", "does not begin with a registry"),
        ("embed", "does not begin with a registry"),
        ("r.example/Team:1", "'Team' is not a valid name of a repository"),
        ("r.example/a:b/c", "is not a valid"),
        ("r.example/a@sha256:12", "'sha256:12' is not a digest"),
        ("r.example/a@", "'' is not a digest"),
        ("https://r.example/a", "does not begin with a registry"),
        ("oci:", "names no folder"),
    ],
)
def test_a_wrong_reference_is_told_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        parse_reference(text)
    assert caught.value.hint
