"""``edgepack cuda``: the device code in libraries, listed and pruned."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from edgepack.api import BundleError, TargetError

VENDOR = ("libcu", "libnv")
"""How NVIDIA's own libraries are called."""


@click.group("cuda", epilog="\b\nExample:\n  edgepack cuda inspect libonnxruntime_providers_cuda.so")
def cuda() -> None:
    """List and prune the GPU code in shared libraries."""


@cuda.command("inspect", epilog="\b\nExample:\n  edgepack cuda inspect libonnxruntime_providers_cuda.so")
@click.argument("library", type=click.Path(path_type=Path))
@click.option(
    "--units", default=20, show_default=True, metavar="N", help="Number of translation units to list."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def inspect_command(library: Path, units: int, as_json: bool) -> None:
    """Show the GPU code in a LIBRARY by architecture, kind and unit."""
    from edgepack_cuda.inspect import inspect_device_code, render_device_code

    found = inspect_device_code(library)
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
        return
    from rich.console import Console

    Console(highlight=False).print(render_device_code(found, units=units))


@cuda.command(
    "prune",
    epilog="\b\nExample:\n  edgepack cuda prune libonnxruntime_providers_cuda.so --arch 8.6 -o pruned.so",
)
@click.argument("library", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="New file to write.",
)
@click.option(
    "--arch",
    "archs",
    multiple=True,
    required=True,
    metavar="8.6",
    help="Compute capability to keep, or native (repeatable).",
)
@click.option("--ort", metavar="VERSION", help="Keep only the units that are listed for this ONNX Runtime.")
@click.option(
    "--op",
    "operators",
    multiple=True,
    metavar="NAME",
    help="Keep only units of this operator (repeatable).  [default: all listed]",
)
@click.option(
    "--prune-vendor", is_flag=True, help="Also prune NVIDIA's own libraries, for use on this machine only."
)
def prune_command(
    library: Path,
    output: Path,
    archs: Sequence[str],
    ort: str | None,
    operators: Sequence[str],
    prune_vendor: bool,
) -> None:
    """Copy a LIBRARY without GPU code for other devices or operators."""
    from edgepack_cuda.inspect import read_library
    from edgepack_cuda.lists import select_units
    from edgepack_cuda.native import resolve
    from edgepack_cuda.prune import prune

    require_permission(library.name, prune_vendor)
    if output.exists():
        raise BundleError(f"{output} already exists", hint="choose another file name")
    content = read_library(library)
    architectures = resolve(archs)
    units = (
        select_units(
            content,
            library.name,
            ort,
            operators or None,
            architectures=architectures,
            note=partial(click.echo, err=True),
        )
        if ort or operators
        else None
    )
    made = prune(
        content,
        library.name,
        architectures=architectures,
        units=units,
        blobs=units is None,
        nearest=not is_vendors(library.name),
    )
    temporary = output.with_name(output.name + ".part")
    try:
        temporary.write_bytes(made.content)
        temporary.chmod(0o755)
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)
    click.echo(f"{output}: {len(made.content) / 1e6:.2f} of {len(content) / 1e6:.2f} MB; {made.in_words()}")


def is_vendors(name: str) -> bool:
    """Whether a library is NVIDIA's own, by its name."""
    return name.startswith(VENDOR)


def require_permission(name: str, allowed: bool) -> None:
    """NVIDIA's licence bars changing its libraries for others: raise ``TargetError`` unless it is asked for."""
    if is_vendors(name) and not allowed:
        raise TargetError(
            f"{name} is NVIDIA's own library; its licence forbids distributing modified copies",
            hint="--prune-vendor prunes it for use on your own machines",
        )
