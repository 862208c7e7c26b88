"""``edgepack push`` and ``edgepack pull``: bundles in registries."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgepack.api.kit import common_options, host_context, print_json, say
from edgepack.terminal_text import foreign

if TYPE_CHECKING:
    from edgepack_oci.push import Pushed

_plain_http = click.option(
    "--plain-http", is_flag=True, help="Connect without TLS; on this machine that is the default."
)


@click.command(
    "push",
    epilog="\b\nExamples:\n  edgepack push dist/my-model-linux-x86-min registry.example/team/embed:1.0\n"
    "  edgepack push dist/my-model-linux-x86-min dist/my-model-linux-arm64-min oci:layout:1.0",
)
@click.argument(
    "bundles", metavar="BUNDLE...", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True)
)
@click.argument("reference", metavar="REFERENCE")
@_plain_http
@common_options
def push_command(bundles: tuple[Path, ...], reference: str, plain_http: bool, as_json: bool) -> None:
    """Push bundles to a registry, as a ModelPack and as an image that runs.

    REFERENCE is REGISTRY/NAME:TAG, or oci:FOLDER:TAG for a folder that skopeo and podman read. TAG names an image for docker, podman and
    Kubernetes, TAG-modelpack the CNCF ModelPack; both have the same layers, and only missing layers are sent. Several bundles under
    one tag must be for different platforms. Credentials are those of docker login and podman login.
    """
    from edgepack_oci.content.reference import parse_reference
    from edgepack_oci.push import push

    named = parse_reference(reference)
    if named.digest:
        raise click.UsageError("push takes a tag; the digest comes of what is pushed")
    with host_context() as context:
        pushed = push(bundles, named, plain_http=plain_http, context=context)
    if as_json:
        print_json(_as_json(pushed))
    else:
        for line in _lines(pushed):
            say(line)


@click.command(
    "pull",
    epilog="\b\nExamples:\n  edgepack pull registry.example/team/embed:1.0\n"
    "  edgepack pull registry.example/team/embed:1.0 -o embed --key keys/team.pub",
)
@click.argument("reference", metavar="REFERENCE")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="New folder for the bundle. [default: the bundle's name, in the current folder]",
)
@click.option(
    "--platform",
    default="",
    metavar="OS/ARCH",
    help="Of several bundles, the one for this platform. [default: this machine's]",
)
@click.option(
    "--key",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Require a signature made with this key; the file holds the public key.",
)
@click.option("--name", metavar="NAME", help="Require that the signed bundle has this name; requires --key.")
@click.option(
    "--min-version",
    metavar="VERSION",
    help="Reject a bundle whose signed manifest says an older version, e.g. 1.2.0; requires --key.",
)
@click.option("-f", "--force", is_flag=True, help="Replace an existing bundle; requires --output or --name.")
@_plain_http
@common_options
def pull_command(
    reference: str,
    output: Path | None,
    platform: str,
    key: Path | None,
    name: str | None,
    min_version: str | None,
    force: bool,
    plain_http: bool,
    as_json: bool,
) -> None:
    """Pull a bundle from a registry into a folder.

    REFERENCE is REGISTRY/NAME:TAG, REGISTRY/NAME@sha256:… or oci:FOLDER:TAG. Digests, sizes and every file of the bundle are checked
    before the folder appears. Layers are kept in the cache: a newer bundle downloads what has changed. Name and version are what the
    bundle's maker says; with --key, what the key's owner has signed.
    """
    from edgepack_oci.content.reference import parse_reference
    from edgepack_oci.pull import Wanted, pull

    if force and output is None and name is None:
        raise click.UsageError(
            "--force requires --output, or --name: else the registry says which bundle is replaced"
        )
    named = parse_reference(reference)
    wanted = Wanted(key=key, name=name, min_version=min_version)
    with host_context() as context:
        pulled = pull(
            named,
            output,
            platform=platform,
            wanted=wanted,
            force=force,
            plain_http=plain_http,
            context=context,
        )
    if as_json:
        print_json(
            {
                "directory": str(pulled.bundle.directory),
                "bundle": pulled.bundle.name,
                "version": pulled.version or None,
                "reference": str(pulled.reference),
                "key": pulled.said_by.key or None,
                "said_by": asdict(pulled.said_by),
                "devices": None if pulled.devices is None else str(pulled.devices),
            }
        )
    else:
        version = f"version {foreign(pulled.version)}" if pulled.version else "without a version"
        say(f"{pulled.bundle.directory}\n{pulled.reference}")
        say(f"{foreign(pulled.bundle.name)}, {version}, {pulled.said_by}")
        if pulled.devices is not None:
            say(f"devices: {pulled.devices}")


def _lines(pushed: "Pushed") -> list[str]:
    counts = ", ".join(f"{count} {how}" for how, count in pushed.layers.items())
    lines = [str(pushed.reference), f"layers: {counts}; {pushed.sent / 1e6:.1f} MB sent"]
    for each in pushed.packed:
        kind = (
            f"no image: {each.why_no_image}"
            if each.why_no_image
            else f"image and ModelPack, {each.size / 1e6:.1f} MB"
        )
        lines.append(f"{each.platform}: {each.name}, {kind}")
    return lines


def _as_json(pushed: "Pushed") -> dict[str, object]:
    return {
        "reference": str(pushed.reference),
        "tags": dict(pushed.tags),
        "bundles": [
            {
                "name": each.name,
                "platform": each.platform,
                "modelpack": each.modelpack.digest,
                "image": each.image and each.image.digest,
                "size": each.size,
            }
            for each in pushed.packed
        ],
        "layers": dict(pushed.layers),
        "sent": pushed.sent,
    }
