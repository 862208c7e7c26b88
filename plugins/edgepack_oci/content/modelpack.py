"""A bundle as a ModelPack of the CNCF (https://github.com/modelpack/model-spec): what Harbor, KitOps, modctl and oras show and take."""

from collections.abc import Mapping, Sequence

from edgepack.api import Bundle
from edgepack_oci.content.documents import (
    BUNDLE,
    DESCRIPTION,
    LICENSES,
    MODELPACK,
    MODELPACK_CONFIG,
    TITLE,
    Document,
    document,
    manifest,
)
from edgepack_oci.content.layers import Layer


def annotations_of(bundle: Bundle) -> Mapping[str, str]:
    """Annotations of a bundle in the manifests and the image."""
    model, target = bundle.manifest["model"], bundle.manifest["target"]
    said = {
        BUNDLE: bundle.name,
        TITLE: bundle.name,
        DESCRIPTION: f"Text embeddings by {model['name']}, made by edgepack for {target['name']}",
        LICENSES: model["license"],
    }
    return {key: str(value) for key, value in said.items() if value}


def modelpack(bundle: Bundle, layers: Sequence[Layer]) -> tuple[Document, Document]:
    """Configuration and manifest, without dates: the same bundle gives the same digests."""
    config = document(_config(bundle, layers), MODELPACK_CONFIG)
    made = manifest(
        config.descriptor(),
        [layer.of_modelpack for layer in layers],
        annotations=annotations_of(bundle),
        artifact_type=MODELPACK,
    )
    return config, made


def _config(bundle: Bundle, layers: Sequence[Layer]) -> dict[str, object]:
    model = bundle.manifest["model"]
    said = annotations_of(bundle)
    return {
        "descriptor": {
            "name": bundle.name,
            "title": str(model["name"]),
            "description": said[DESCRIPTION],
            **({"licenses": [said[LICENSES]]} if LICENSES in said else {}),
        },
        "config": {
            "format": str(model["format"]),
            "precision": str(model["precision"]),
            "quantization": str(model["recipe"]),
            "capabilities": {"inputTypes": ["text"], "outputTypes": ["embedding"]},
        },
        "modelfs": {"type": "layers", "diffIds": [layer.diff_id for layer in layers]},
    }
