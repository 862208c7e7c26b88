"""Sending a release: what is missing of it, and the tag last."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import BuildContext, Bundle
from edgepack.api.kit import open_bundle, unpack_bundle
from edgepack.bundles.place import held_as_it_is
from edgepack.device.record import record_files
from edgepack_oci.content.proof import devices_tags, proof_of
from edgepack_oci.content.reference import Reference
from edgepack_oci.content.release import Packed, make_release
from edgepack_oci.places.layout import OciLayout
from edgepack_oci.places.place import Place
from edgepack_oci.places.registry import open_registry


@dataclass(frozen=True, kw_only=True)
class Pushed:
    """Content of the registry after a push."""

    reference: Reference
    """With its digest: what to pin."""
    tags: Mapping[str, str]
    """Tag → digest."""
    packed: tuple[Packed, ...]
    layers: Mapping[str, int]
    """``sent``, ``there``, ``mounted`` → number of layers."""
    sent: int
    """Bytes of layers that were sent."""


@contextmanager
def open_place(
    reference: Reference, *, push: bool, plain_http: bool, context: BuildContext
) -> Iterator[Place]:
    """The registry, or the folder, that a reference names."""
    if reference.registry:
        with open_registry(reference, push=push, plain_http=plain_http, context=context) as registry:
            yield registry
        return
    layout = OciLayout(folder=Path(reference.name), work=context.work_dir / "layers")
    if push:
        layout.create()
    yield layout


def push(paths: Sequence[Path], reference: Reference, *, plain_http: bool, context: BuildContext) -> Pushed:
    """Push bundles (folders or archives) under one tag. Raises ``BundleError``, ``UsageError``, ``UploadError``.

    What fails leaves the tag as it was: layers that have arrived stay, and are not sent again.
    """
    with ExitStack() as held:
        # Each once and in one order: two runs would wait for each other.
        for read in sorted({path.resolve() for path in paths}):
            held.enter_context(held_as_it_is(read, waiting=context.warn))
        bundles = [_opened(path, number, context) for number, path in enumerate(paths)]
        release = make_release(bundles, reference.tag, context=context)
        proofs = {
            packed.platform: proof_of(bundle, files, packed.modelpack.descriptor())
            for path, bundle, packed in zip(paths, bundles, release.packed, strict=True)
            if (files := record_files(path, bundle))
        }
    tags = {reference.tagged(tag).tag: document for tag, document in release.tags.items()}
    counted: Counter[str] = Counter()
    sent = 0
    total = sum(layer.size for layer in release.layers.values())
    with open_place(reference, push=True, plain_http=plain_http, context=context) as place:
        with context.progress("push", total, unit="B") as bar:
            for layer in release.layers.values():
                how = place.put_layer(layer, bar.advance)
                counted[how] += 1
                sent += layer.size if how == "sent" else 0
        for config in release.configs:
            place.put_config(config)
        for made in release.manifests:
            place.put_manifest(made)
        for platform, proof in proofs.items():
            for blob in proof.blobs:
                place.put_config(blob)
            of_several, alone = devices_tags(reference.tag, platform)
            tag = alone if len(bundles) == 1 else of_several
            place.put_manifest(proof.manifest, tag)
            tags[tag] = proof.manifest
        for tag, made in release.tags.items():
            place.put_manifest(made, reference.tagged(tag).tag)
    return Pushed(
        reference=reference.at(tags[reference.tag].digest),
        tags={tag: made.digest for tag, made in tags.items()},
        packed=release.packed,
        layers=dict(sorted(counted.items())),
        sent=sent,
    )


def _opened(path: Path, number: int, context: BuildContext) -> Bundle:
    if path.is_file():
        path = unpack_bundle(path, context.work_dir / f"oci-bundle-{number}")
    return open_bundle(path).absolute()
