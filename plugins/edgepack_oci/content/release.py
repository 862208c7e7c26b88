"""All that is pushed under a tag: for each bundle a ModelPack and, where it runs under Linux, an image of the same layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgepack.api import BuildContext, Bundle, UsageError
from edgepack_oci.content.documents import BUNDLE, ELSEWHERE, PLATFORM, Descriptor, Document, index
from edgepack_oci.content.image import image, platform_name, platform_of
from edgepack_oci.content.layers import Layer, bundle_layers
from edgepack_oci.content.libc import libc_layer, needs_libc, why_no_image
from edgepack_oci.content.modelpack import annotations_of, modelpack

MODEL_TAG = "{tag}-modelpack"


@dataclass(frozen=True, kw_only=True)
class Packed:
    name: str
    platform: str
    """``linux/amd64``"""
    modelpack: Document
    image: Document | None
    why_no_image: str
    size: int
    """Bytes of the image's layers, or of the ModelPack's where there is no image."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """Content for a registry, in this order: blobs, documents by digest, and last the tags."""

    layers: Mapping[str, Layer]
    """By digest."""
    configs: tuple[Document, ...]
    manifests: tuple[Document, ...]
    tags: Mapping[str, Document]
    """The last is the one that the user named."""
    packed: tuple[Packed, ...]


def make_release(bundles: Sequence[Bundle], tag: str, *, context: BuildContext) -> Release:
    """Raises ``UsageError`` for two bundles of one platform: whoever pulls an image could not tell them apart."""
    _require_platforms_apart(bundles)
    layers: dict[str, Layer] = {}
    configs: list[Document] = []
    packed: list[Packed] = []
    for bundle in bundles:
        own = bundle_layers(bundle, context=context)
        config, model = modelpack(bundle, own)
        configs.append(config)
        why_not, made = why_no_image(bundle), None
        if not why_not:
            if needs_libc(bundle):
                arch = str(bundle.manifest["target"]["platform"]["arch"])
                own = [libc_layer(arch, context=context), *own]
            config, made = image(bundle, own)
            configs.append(config)
        layers |= {layer.digest: layer for layer in own}
        packed.append(
            Packed(
                name=bundle.name,
                platform=platform_name(platform_of(bundle)),
                modelpack=model,
                image=made,
                why_no_image=why_not,
                size=sum(layer.size for layer in own),
            )
        )
    documents = [document for each in packed for document in (each.image, each.modelpack) if document]
    return Release(
        layers=layers,
        configs=tuple(configs),
        manifests=tuple(documents),
        tags=_tags(bundles, packed, tag),
        packed=tuple(packed),
    )


def _tags(bundles: Sequence[Bundle], packed: Sequence[Packed], tag: str) -> dict[str, Document]:
    """TAG: an index of everything. Clients that know models but no index get a tag for each ModelPack."""
    if len(packed) == 1 and packed[0].image is None:
        return {tag: packed[0].modelpack}
    entries: list[Descriptor] = []
    for bundle, each in zip(bundles, packed, strict=True):
        if each.image is not None:
            entries.append(each.image.descriptor(platform=platform_of(bundle)))
    for each in packed:
        annotations = {BUNDLE: each.name, PLATFORM: each.platform}
        entries.append(each.modelpack.descriptor(annotations=annotations, platform=ELSEWHERE))
    base = MODEL_TAG.format(tag=tag)
    models = {
        base
        if len(packed) == 1
        else f"{base}-{each.platform.partition('/')[2].replace('/', '')}": each.modelpack
        for each in packed
    }
    return {
        **models,
        tag: index(entries, annotations=dict(annotations_of(bundles[0])) if len(bundles) == 1 else {}),
    }


def _require_platforms_apart(bundles: Sequence[Bundle]) -> None:
    names: dict[str, str] = {}
    for bundle in bundles:
        platform = platform_name(platform_of(bundle))
        if platform in names:
            raise UsageError(
                f"{names[platform]} and {bundle.name} are both for {platform}: under one tag nobody could tell them apart",
                hint="push each under a tag of its own",
            )
        names[platform] = bundle.name
