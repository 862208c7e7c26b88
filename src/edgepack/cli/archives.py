"""The commands for the kernel archive, from which reduced runtimes are linked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgepack.cli.help import example
from edgepack.cli.options import common_options, offline_option
from edgepack.cli.output import print_json, say

if TYPE_CHECKING:
    from edgepack.context import BuildContext
    from edgepack.foundry.compile.archive import KernelArchive
    from edgepack.foundry.compile.exchange import Exchanged
    from edgepack.foundry.platform import RuntimeOptions, RuntimePlatform
    from edgepack.records.runtime import RuntimeKind


def _archive_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which kernel archive is meant."""
    for option in (
        click.option(
            "--threads", is_flag=True, help="Include threads, on platforms where they are optional."
        ),
        click.option("--with-ml", is_flag=True, help="Include the ai.onnx.ml operators."),
        click.option("--glibc", metavar="VERSION", help="Oldest glibc of the devices.  [default: 2.28]"),
        click.option(
            "--arch",
            default="x86_64",
            show_default=True,
            metavar="NAME",
            help="Processor of the devices: x86_64, aarch64, or one that a plugin adds.",
        ),
        click.option(
            "--kind",
            type=click.Choice(["minimal", "minimal-extended", "full"]),
            default="minimal",
            show_default=True,
            help="Kind of runtime, as for `edgepack runtime lib`.",
        ),
    ):
        command = option(command)
    return command


def _open(options: RuntimeOptions, platform: RuntimePlatform, context: BuildContext) -> KernelArchive:
    """Raises ``UsageError`` for what there is no archive of."""
    from edgepack.foundry.compile.archive import open_archive

    return open_archive(
        kind=options.kind,
        toolchain=platform.toolchain(options, context=context),
        features=options.features,
        release=platform.release,
        context=context,
    )


@click.command("export", epilog=example("edgepack runtime export kernels.tar.zst"))
@click.argument("file", type=click.Path(path_type=Path), default=None, required=False)
@_archive_options
@click.option("--full", is_flag=True, help="Compile everything first (most of an hour on two cores).")
@click.option(
    "--with-sources", is_flag=True, help="Include ONNX Runtime's sources, for machines without a network."
)
@offline_option
@common_options
def export_command(
    file: Path | None,
    kind: RuntimeKind,
    arch: str,
    glibc: str | None,
    with_ml: bool,
    threads: bool,
    full: bool,
    with_sources: bool,
    offline: bool,
    as_json: bool,
) -> None:
    """Export the compiled objects of ONNX Runtime to one FILE.

    Machines that import FILE link runtimes without compiling those objects again. The default FILE is
    kernels-KIND-ARCH.tar.zst.
    """
    from edgepack.foundry.compile.exchange import export_archive
    from edgepack.foundry.link.everything import compile_everything
    from edgepack.foundry.platform import RuntimeOptions
    from edgepack.foundry.platforms import platform_on
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import load_plugins
    from edgepack.targets import processor_name

    arch = processor_name(arch)
    device, platform = platform_on(arch, load_plugins().extensions("platform"))
    options = RuntimeOptions(platform=device, kind=kind, glibc=glibc, threads=threads, ml=with_ml)
    platform.check(options)
    output = file or Path(f"kernels-{kind}-{arch}{'-threads' if threads else ''}.tar.zst")
    with host_context(offline=offline) as context, context.story.step("export"):
        archive = _open(options, platform, context)
        if full:
            compile_everything(archive, context=context)
        made = export_archive(
            archive, output, features=options.features, with_sources=with_sources, context=context
        )
        context.note(f"{_words(made)}, {output.stat().st_size / 1e6:.1f} MB")
    if as_json:
        facts = asdict(made)
        del facts["added"]  # of an import
        print_json({"file": str(output.absolute()), "bytes": output.stat().st_size, **facts})
    else:
        click.echo(output)


@click.command("import", epilog=example("edgepack runtime import kernels.tar.zst"))
@click.argument("file", type=click.Path(path_type=Path))
@common_options
def import_command(file: Path, as_json: bool) -> None:
    """Check an exported FILE and add its objects to the cache."""
    from edgepack.foundry.compile.exchange import import_archive
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import load_plugins
    from edgepack.runtimes.known import release_for

    host = load_plugins()
    with host_context(offline=True) as context, context.story.step("import"):
        made = import_archive(
            file, release_for=partial(release_for, extensions=host.extensions("platform")), context=context
        )
        context.note(f"{_words(made)}; {made.added} were not there yet")
    if as_json:
        print_json(asdict(made))
    else:
        say(f"for {made.kind} runtimes built with {made.toolchain}")


def _words(made: Exchanged) -> str:
    parts = ["everything" if made.complete else "", "sources" if made.sources else ""]
    return ", ".join([f"{made.objects} objects", *filter(None, parts)])
