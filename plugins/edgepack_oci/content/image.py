"""A bundle as an image that runs: its layers over a C library, and nothing else; for docker, podman, Kubernetes and KServe."""

from collections.abc import Mapping, Sequence

from edgepack.api import Bundle
from edgepack_oci.content.documents import (
    BUNDLE,
    DESCRIPTION,
    IMAGE_CONFIG,
    LICENSES,
    TITLE,
    Document,
    document,
    manifest,
)
from edgepack_oci.content.layers import HOME, Layer
from edgepack_oci.content.modelpack import annotations_of

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm/v7"}
"""What OCI calls them: architecture, and where it has several its variant."""
CREATED = "1980-01-01T00:00:00Z"
"""The time of all files: an image's own would give it another digest each time."""
NOBODY = "65534:65534"


def platform_of(bundle: Bundle) -> Mapping[str, str]:
    """Platform as OCI says it, e.g. ``{"architecture": "amd64", "os": "linux"}``."""
    platform = bundle.manifest["target"]["platform"]
    arch = str(platform["arch"])
    architecture, _, variant = ARCHITECTURES.get(arch, arch).partition("/")
    said = {"architecture": architecture, "os": str(platform["os"])}
    return {**said, "variant": variant} if variant else said


def platform_name(platform: Mapping[str, str]) -> str:
    """``linux/amd64``, ``linux/arm/v7``; arm64 has one variant only, which some say and some do not."""
    variant = platform.get("variant", "") if platform["architecture"] == "arm" else ""
    return "/".join(filter(None, (platform["os"], platform["architecture"], variant)))


def image(bundle: Bundle, layers: Sequence[Layer]) -> tuple[Document, Document]:
    """Configuration and manifest. The program is the entry point, and runs as nobody."""
    labels = annotations_of(bundle)
    config = {
        "created": CREATED,
        **platform_of(bundle),
        "config": {
            "User": NOBODY,
            "Env": [f"PATH=/{HOME}"],
            "Entrypoint": [f"/{HOME}/{bundle.manifest['runner']['program']}"],
            "WorkingDir": "/",
            "Labels": {key: labels[key] for key in (BUNDLE, DESCRIPTION, LICENSES, TITLE) if key in labels},
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": CREATED, "created_by": f"edgepack: {layer.part}"} for layer in layers],
    }
    made = document(config, IMAGE_CONFIG)
    return made, manifest(made.descriptor(), [layer.of_image for layer in layers], annotations=labels)
