"""The commands for the kernel archive, from which reduced runtimes are linked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgepack.cli.help import example
from edgepack.cli.options import common_options, mode_of, names_of, offline_option
from edgepack.cli.output import print_json, say

if TYPE_CHECKING:
    from edgepack.context import BuildContext
    from edgepack.foundry.compile.archive import KernelArchive
    from edgepack.foundry.compile.exchange import Exchanged
    from edgepack.foundry.platform import RuntimeOptions, RuntimePlatform
    from edgepack.records.runtime import RuntimeKind


MODES = {"wheel": {"folder"}, "": {"file"}}


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


@click.command(
    "export",
    epilog=example(
        "edgepack runtime export kernels.tar.zst",
        "edgepack runtime export --wheel -t linux-x86-min -o wheels",
    ),
)
@click.argument("file", type=click.Path(path_type=Path), default=None, required=False)
@click.option(
    "-t",
    "--target",
    "target_name",
    metavar="NAME",
    shell_complete=names_of("target"),
    help="Take platform and kind from a target, in the place of --arch, --kind and --glibc.",
)
@_archive_options
@click.option(
    "--wheel",
    is_flag=True,
    help="Write a wheel to the folder --output: where it is installed, its objects are found.",
)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("dist"),
    show_default=True,
    metavar="DIR",
    help="Folder for the wheel.",
)
@click.option("--full", is_flag=True, help="Compile everything first (most of an hour on two cores).")
@click.option(
    "--with-sources", is_flag=True, help="Include ONNX Runtime's sources, for machines without a network."
)
@offline_option
@common_options
def export_command(
    file: Path | None,
    wheel: bool,
    folder: Path,
    full: bool,
    with_sources: bool,
    offline: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Export the compiled objects of ONNX Runtime to one FILE.

    Machines that import FILE link runtimes without compiling those objects again. The default FILE is
    kernels-KIND-ARCH.tar.zst. With --wheel, machines that install the wheel do the same, and need no import.
    """
    from edgepack.bundles.place import require_writable
    from edgepack.files.folder import require_kind
    from edgepack.foundry.compile.exchange import is_exported
    from edgepack.foundry.compile.export import export_archive
    from edgepack.foundry.compile.installed import FILE
    from edgepack.foundry.compile.wheel import write_wheel
    from edgepack.foundry.link.everything import compile_everything
    from edgepack.plugins.context import host_context

    mode_of(click.get_current_context(), MODES)
    options, platform = _chosen(**asked)
    end = "-threads" if asked["threads"] else ""
    output = file or Path(f"kernels-{options.kind}-{options.platform.arch}{end}.tar.zst")
    require_kind(None if wheel else output, is_exported)
    with host_context(offline=offline) as context, context.story.step("export"):
        if wheel:
            require_writable(folder)
            output = context.work_dir / FILE
        archive = _open(options, platform, context)
        if full:
            compile_everything(archive, context=context)
        made = export_archive(
            archive, output, features=options.features, with_sources=with_sources, context=context
        )
        if wheel:
            output = write_wheel(output, made, folder)
        size = output.stat().st_size
        context.note(f"{_words(made)}, {size / 1e6:.1f} MB")
    if as_json:
        facts = asdict(made)
        del facts["added"]  # of an import
        print_json({"file": str(output.absolute()), "bytes": size, **facts})
    else:
        click.echo(output)


def _chosen(
    *,
    target_name: str | None,
    kind: RuntimeKind,
    arch: str,
    glibc: str | None,
    threads: bool,
    with_ml: bool,
) -> tuple[RuntimeOptions, RuntimePlatform]:
    """Those of a target, or what the options say. Raises ``UsageError`` for what there is no archive of."""
    from edgepack.foundry.platform import RuntimeOptions
    from edgepack.foundry.platforms import find_platform, platform_on
    from edgepack.plugins.host import load_plugins
    from edgepack.runtimes.standalone import library_options
    from edgepack.targets import processor_name

    host = load_plugins()
    platforms = host.extensions("platform")
    if target_name is not None:
        named = library_options(target_name, recipe=None, kind=None, glibc=glibc, threads=threads, host=host)
        options = replace(named.runtime, ml=with_ml)
        platform = find_platform(options.platform, platforms)
    else:
        device, platform = platform_on(processor_name(arch), platforms)
        options = RuntimeOptions(platform=device, kind=kind, glibc=glibc, threads=threads, ml=with_ml)
    platform.check(options)
    return options, platform


@click.command("import", epilog=example("edgepack runtime import kernels.tar.zst"))
@click.argument("file", type=click.Path(path_type=Path))
@common_options
def import_command(file: Path, as_json: bool) -> None:
    """Check an exported FILE and add its objects to the cache."""
    from edgepack.foundry.compile.exchange import import_archive
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import load_plugins
    from edgepack.runtimes.find import release_for

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
