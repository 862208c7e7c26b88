"""The commands for a reduced runtime by itself."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgepack.cli.help import Listed, example
from edgepack.cli.options import common_options, complete_model, names_of, offline_option, output_option
from edgepack.cli.output import print_json, print_rich, say

if TYPE_CHECKING:
    from edgepack.records.runtime import Levels

levels_option = click.option(
    "--levels",
    type=click.Choice(["here", "all"]),
    default="here",
    show_default=True,
    help="CPU levels to prove: those of this CPU (here), or also those that qemu can emulate (all).",
)


@click.group(cls=Listed, epilog=example("edgepack runtime lib -m ./my-model --target linux-arm64-min"))
def runtime() -> None:
    """Build, prove and explain reduced ONNX Runtimes."""


@runtime.command(
    epilog=example("edgepack runtime lib -m ./my-model -m all-MiniLM-L6-v2 --target linux-arm64-min")
)
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    shell_complete=complete_model,
    help="Model, as for `edgepack bundle`; repeat it for one runtime that runs several models.",
)
@click.option(
    "-t",
    "--target",
    "target_name",
    metavar="NAME",
    shell_complete=names_of("target"),
    help="Take platform, recipe and kind from a target, e.g. linux-arm64-min. Without it, the platform is Linux x86-64.",
)
@click.option(
    "-r",
    "--recipe",
    metavar="NAME",
    shell_complete=names_of("recipe"),
    help="Quantization recipe of the models.  [default: the target's, otherwise int8]",
)
@click.option(
    "--kind",
    type=click.Choice(["minimal", "minimal-extended", "full"]),
    help="What the runtime reads: minimal: .ort files; minimal-extended: also saved optimizations; full: also .onnx files.  "
    "[default: minimal]",
)
@click.option("--glibc", metavar="VERSION", help="Oldest glibc of the devices.  [default: 2.28]")
@click.option("--threads", is_flag=True, help="Include threads, on platforms where they are optional.")
@click.option(
    "--release",
    "room",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Build another release of ONNX Runtime, whose room FOLDER `python -m bin.draft_release` wrote.",
)
@levels_option
@output_option("dist/onnxruntime", "New folder for lib/, include/ and the models.")
@offline_option
@common_options
def lib(
    models: tuple[str, ...],
    target_name: str | None,
    levels: Levels,
    output: Path,
    offline: bool,
    as_json: bool,
    **named: Any,
) -> None:
    """Build a reduced runtime library for Rust, C, Go or C#.

    Its name and version are upstream's, and the headers are included. A target of another platform gets that platform's
    form of a runtime.
    """
    from edgepack.foundry.platforms import find_platform
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import load_plugins
    from edgepack.runtimes.standalone import library_options, make_library

    host = load_plugins()
    options = library_options(target_name, host=host, **named)
    platform = find_platform(options.runtime.platform, host.extensions("platform"))
    platform.check(options.runtime)
    with host_context(offline=offline) as context:
        made = make_library(
            models or (None,),
            options=options,
            platform=platform,
            levels=levels,
            output=output,
            context=context,
        )
    library = (output / "lib" / made.file.name).absolute()
    if as_json:
        size = library.stat().st_size
        print_json(
            {
                "library": str(library),
                "bytes": size,
                "operators": len(made.operators),
                "kind": made.runtime.kind,
                "toolchain": made.runtime.toolchain,
                "proofs": [asdict(proof) for proof in made.proofs],
            }
        )
    else:
        say(platform.next_step.format(library=library))


@runtime.command(epilog=example("edgepack runtime versions"))
@common_options
def versions(as_json: bool) -> None:
    """List the known releases of ONNX Runtime.

    Wheels (for runtime = stock) and sources (for reduced runtimes) are at hand if they are in the cache; pinned ones are fetched when they are needed.
    Compiled are the kernel archives on this machine. A release brings the operators that no older release in the list runs.
    """
    from edgepack.plugins.context import host_context
    from edgepack.reports.releases import render_releases
    from edgepack.runtimes.versions import known_releases

    with host_context(offline=True) as context:
        found = known_releases(context)
    print_json([asdict(each) for each in found]) if as_json else print_rich(render_releases(found))


@runtime.command(
    epilog=example("edgepack runtime prove dist/onnxruntime/lib/libonnxruntime.so.1.21.0 model.ort")
)
@click.argument("library", type=click.Path(path_type=Path))
@click.argument("model", type=click.Path(path_type=Path))
@levels_option
@offline_option
@common_options
def prove(library: Path, model: Path, levels: Levels, offline: bool, as_json: bool) -> None:
    """Run MODEL on a runtime LIBRARY at each CPU level.

    The vectors are compared with the stock runtime's. Exit code 12: a kernel is missing, or the vectors differ.
    """
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import load_plugins
    from edgepack.reports.text import proof_table
    from edgepack.runtimes.find import platform_of
    from edgepack.runtimes.standalone import prove_again

    platform = platform_of(library, load_plugins().extensions("platform"))
    with host_context(offline=offline) as context:
        proofs = prove_again(library, model, platform=platform, levels=levels, context=context)
    print_json([asdict(proof) for proof in proofs]) if as_json else print_rich(proof_table(proofs))


@runtime.command(epilog=example("edgepack runtime fits /usr/lib/libonnxruntime.so model.onnx"))
@click.argument("library", type=click.Path(path_type=Path))
@click.argument("model", type=click.Path(path_type=Path))
@common_options
def fits(library: Path, model: Path, as_json: bool) -> None:
    """Check whether an existing runtime LIBRARY can run a MODEL.

    Missing kernels are named. An operator list beside the library is trusted. Without one, the MODEL (.ort or .onnx) is loaded and run on the
    library in a separate process. Exit code 11: the library cannot run the model.
    """
    from edgepack.errors import MismatchError
    from edgepack.models.ort.releases import having, in_words
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import load_plugins
    from edgepack.runtimes.find import platform_of
    from edgepack.runtimes.standalone import fit

    platform = platform_of(library, load_plugins().extensions("platform"))
    with host_context(offline=True) as context:
        found = fit(library, model, platform=platform, context=context)
    if as_json:
        print_json(
            {
                "fits": found.fits,
                "runtime": found.version or None,
                "missing": list(found.missing),
                "releases": [release.version for release in having(found.missing)],
                "complete": found.complete,
                "reason": found.reason or None,
                "ran": found.ran,
            }
        )
    if found.missing:
        others = "" if found.complete else ", and perhaps others"
        releases = in_words(having(found.missing))
        stock = f"; ONNX Runtime {releases} have these: runtime = stock takes one of them" if releases else ""
        raise MismatchError(
            f"{model.name} does not fit {library.name}, which lacks {', '.join(found.missing)}{others}",
            hint=f"edgepack runtime lib -m MODEL -m OTHER makes one runtime for several models{stock}",
        )
    if found.reason:
        raise MismatchError(found.reason, hint="convert the model for this ONNX Runtime, or use another one")
    if not as_json:
        tried = ", and ran on it" if found.ran else ", and loads on it"
        how = tried if found.version else ", as the operators listed beside it say"
        say(f"{model.name} fits {library.name}{how}")


@runtime.command(epilog=example("edgepack runtime explain dist/all-MiniLM-L6-v2-linux-x86"))
@click.argument("path", metavar="LIBRARY|BUNDLE", type=click.Path(path_type=Path))
@click.option(
    "--members",
    default=25,
    show_default=True,
    metavar="N",
    help="Number of objects to list, largest first.",
)
@click.option("--why", metavar="NAME", help="Show why objects with NAME in their name were linked.")
@common_options
def explain(path: Path, members: int, why: str | None, as_json: bool) -> None:
    """Show what is in a runtime LIBRARY, byte by byte.

    Of a BUNDLE (its folder or archive), that is the library inside, or the program that the runtime is linked into. Each object is listed with the operators that need it. These details come
    from the record that `edgepack runtime lib` writes beside the library, or, for the library of a bundle that was made on this machine, from the cache. Of any other library, only the sections are shown.
    """
    from edgepack.errors import UsageError
    from edgepack.files.store import Store, default_root
    from edgepack.foundry.explain.sizes import explain, find_composition
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import load_plugins
    from edgepack.reports.explain import render_explanation, render_why
    from edgepack.runtimes.find import library_in, platform_of

    with host_context(offline=True) as context:
        library = library_in(path, work_dir=context.work_dir)
        composition = find_composition(library, Store(root=default_root()))
        found = explain(
            library, composition, form=platform_of(library, load_plugins().extensions("platform")).form
        )
    if why is not None:
        chosen = [member for member in found.members if why in member.name]
        if not chosen:
            raise UsageError(
                f"no object of {library.name} has {why} in its name", hint="omit --why to list the objects"
            )
        print_json([asdict(member) for member in chosen]) if as_json else print_rich(
            render_why(chosen), whole_lines=True
        )
    elif as_json:
        print_json(asdict(found))
    else:
        print_rich(render_explanation(found, members=members))
