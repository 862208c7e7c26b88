"""``edgepack join``."""

from pathlib import Path

import click

from edgepack.api.kit import common_options, print_json, say


@click.command(
    epilog="\b\nExample:\n  edgepack join dist/my-model-linux-arm64-fast.aar dist/my-model-linux-x86-fast.aar -o my-model.aar"
)
@click.argument("archives", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="File to write.",
)
@click.option("-f", "--force", is_flag=True, help="Replace an existing file.")
@common_options
def join(archives: tuple[Path, ...], output: Path, force: bool, as_json: bool) -> None:
    """Join archives of one model for several processors into one.

    Each FILE is what `edgepack bundle --as aar` or `--as jar` made, from the same model and recipe. The result holds the bundle
    of the first, and the libraries of all: an app takes the one for its processor, with the same vectors.
    """
    from edgepack.api.kit import host_context
    from edgepack.errors import OutputError
    from edgepack_bindings.join import join as join_archives

    if output.is_dir() or (output.exists() and not force):
        raise OutputError(f"{output} already exists", hint="--force replaces a file; choose another name")
    with host_context() as context:
        platforms = join_archives(archives, output, context=context)
    size = output.stat().st_size
    if as_json:
        print_json({"file": str(output), "bytes": size, "platforms": list(platforms)})
    else:
        say(f"{output}: {size:,} bytes, for {', '.join(platforms)}")
