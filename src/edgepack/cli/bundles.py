"""The commands that make, check and measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from edgepack.cli.builder_flags import ANY_FLAG, builder_flags
from edgepack.cli.help import example
from edgepack.cli.options import (
    Figure,
    WithModel,
    chosen_target_option,
    common_options,
    file_option,
    mode_of,
    model_argument,
    model_option,
    names_of,
    offline_option,
    one_model,
    output_option,
    prices_option,
    reading_options,
    set_option,
    size,
    source_option,
)
from edgepack.cli.output import print_json, print_rich, say
from edgepack.cli.signing import password_of, private_key
from edgepack.errors import NotVerifiedError, UsageError
from edgepack.files.folder import ARRAY, PAGE
from edgepack.records.bundle import Bundle
from edgepack.records.target import GateLevel, Reading
from edgepack.terminal_text import foreign

if TYPE_CHECKING:
    from edgepack.plugins.host import PluginHost
    from edgepack.records.device import DeviceResult, OnDevices


@click.command(
    cls=WithModel,
    context_settings=ANY_FLAG,
    options_metavar="[OPTIONS] [MODEL]",
    epilog=example(
        "edgepack bundle ./my-model --pooling cls",
        "edgepack bundle hf:BAAI/bge-small-en-v1.5 --target linux-x86 --as deb",
    ),
)
@click.pass_context
@chosen_target_option
@model_option
@reading_options
@click.option(
    "-r",
    "--recipe",
    metavar="NAME",
    shell_complete=names_of("recipe"),
    help="Quantization recipe; same as --set model.recipe=NAME.",
)
@click.option(
    "--gate",
    type=click.Choice(get_args(GateLevel)),
    help="How vectors are verified: quick: on 200 texts; full: also on a retrieval task; off: measured only. "
    "Same as --set model.gate=LEVEL.",
)
@click.option(
    "--budget",
    type=size,
    metavar="SIZE",
    help='Use the recipe nearest to full precision whose download is at most this large, e.g. "10 MB".',
)
@set_option
@output_option("dist", "Output folder for the bundle and its archive.")
@click.option(
    "--as",
    "formats",
    multiple=True,
    metavar="FORM",
    shell_complete=names_of("package"),
    help="Also make this package, e.g. deb (repeatable); same as --set package.formats.",
)
@click.option("-f", "--force", is_flag=True, help="Replace an existing bundle.")
@file_option(
    "--sign",
    "Sign the bundle, its archive and its packages with this private key; see `edgepack sign`.",
    exists=True,
)
@click.option(
    "--bench",
    is_flag=True,
    help="Measure the program's speed and memory on this machine for the report; not where it is emulated.",
)
@click.option(
    "--check-reproducible",
    is_flag=True,
    help="Build it again in other surroundings and compare byte for byte; exit code 22 where the two differ.",
)
@prices_option
@offline_option
@common_options
def bundle(
    click_context: click.Context,
    /,
    target_name: str | None,
    model: str | None,
    recipe: str | None,
    gate: str | None,
    overrides: tuple[str, ...],
    formats: tuple[str, ...],
    sign: Path | None,
    check_reproducible: bool,
    offline: bool,
    as_json: bool,
    **order: Any,
) -> None:
    """Build a self-contained bundle, verify it and report its size."""
    from edgepack import pipeline
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import load_plugins
    from edgepack.targets import overrides_of

    host = load_plugins()
    overrides = (*overrides, *overrides_of(recipe=recipe, gate=gate, packages=formats))
    overrides, words = with_flags(host, target_name, overrides, click_context)
    model = one_model(*words, model)
    if sign and check_reproducible:
        raise UsageError(
            "--check-reproducible compares what is not signed yet",
            hint="sign afterwards: edgepack sign BUNDLE",
        )
    key = None if sign is None else private_key(sign)
    with host_context(offline=offline, host=host) as context:
        outcome = pipeline.build_chosen(
            target_name, overrides, model=model, key=key, context=context, **order
        )
        if check_reproducible:
            from edgepack.project.rebuild_check import require_reproducible

            require_reproducible(outcome, model=model, context=context)
    from edgepack.reports import text

    if as_json:
        places = {"directory": str(outcome.bundle.directory), "archive": str(outcome.bundle.archive)}
        print_json({**text.as_json(outcome.report), **places})
    else:
        print_rich(text.render(outcome.report))
        for line in _next_steps(outcome.bundle, host.builder_of(outcome.target).spec.next_step):
            say(line)


def with_flags(
    host: PluginHost, name: str | None, overrides: tuple[str, ...], click_context: click.Context
) -> tuple[tuple[str, ...], list[str]]:
    """Settings by ``--set`` and by the flags that are the target's builder's; and the words that are no flags."""
    from edgepack.targets import target_of_this_machine

    target = host.target(name or target_of_this_machine(), overrides)
    flags, words = builder_flags(click_context, host.builder_of(target).options())
    return (*overrides, *flags), words


def _next_steps(bundle: Bundle, said: str) -> Iterator[str]:
    """Commands to run next: try it, show it, ship it."""
    yield "\nnext:"
    option = {"rank": '--rerank "What is he eating?" ', "classes": "--classify "}
    task = option.get(str(bundle.manifest["model"].get("task")), "")
    tried = f'{bundle.directory}/{bundle.manifest["runner"]["program"]} {task}"A man is eating food."'
    yield f"  {said.format(bundle=bundle.directory) if said else tried}"
    if not said and bundle.manifest["runner"].get("serve"):
        yield f"  {bundle.directory}/{bundle.manifest['runner']['program']} serve --port 8080"
    yield f"  edgepack report {bundle.directory} --html report.html"
    yield f"  edgepack verify --run {bundle.archive}    # where it arrives"


_MEASURES = {
    *("model", "pooling", "normalize", "prompts", "route", "treat_as_embedding", "target", "min_cosine"),
    *("gate", "seed", "run", "min_version", "offline"),
}
MODES = {
    "require_device": {"record", "target", "min_cosine"},
    "signature_only": {"min_version"},
    "devices": {*_MEASURES, "bench", "sign", "record"},
    "": {*_MEASURES, "write_vectors", "other_vectors"},
}
"""Of `edgepack verify`: what each takes besides what all do."""


@click.command(
    epilog=example(
        "edgepack verify dist/all-MiniLM-L6-v2-linux-x86-min",
        "edgepack verify --run all-MiniLM-L6-v2-linux-x86-min.tar.zst --min-cosine 0.98",
    )
)
@click.argument("path", metavar="BUNDLE", type=click.Path(path_type=Path))
@source_option
@reading_options
@click.option(
    "-t",
    "--target",
    metavar="NAME",
    shell_complete=names_of("target"),
    help="Apply the limits of this target. [default: for a bundle made on this machine, its own target's limits; "
    "for any other, edgepack's defaults]",
)
@click.option("--min-cosine", type=Figure(0, 1), help="Require at least this mean cosine.")
@click.option(
    "--gate",
    type=click.Choice(get_args(GateLevel)),
    help="Verify at this level instead of the one that the bundle was built with.",
)
@file_option(
    "--write-vectors",
    "Save the bundle's vectors of the 200 texts (.npy), to compare on another machine.",
    replaces=ARRAY,
)
@file_option(
    "--other-vectors", "Compare with vectors that --write-vectors saved on another machine.", exists=True
)
@click.option(
    "--run",
    is_flag=True,
    help="Run the program even if the bundle was not made on this machine. It runs with your permissions, in a sandbox if "
    "one is available.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Draw the texts of --run by this seed, to repeat a verification. [default: a new one each time]",
)
@click.option(
    "--max-unpacked",
    type=size,
    metavar="SIZE",
    help='Largest unpacked size of an archive, e.g. "2 GB". [default: 100 times its size, at least 256 MiB, at most 16 GiB]',
)
@file_option(
    "--key",
    "Require a signature made with this key; the file holds the public key. With --require-device: of the record, if it was not written on "
    "this machine.",
    exists=True,
)
@click.option(
    "--min-version",
    metavar="VERSION",
    help="Reject a bundle whose signed manifest says an older version, e.g. 1.2.0; requires --key.",
)
@click.option(
    "--signature-only",
    is_flag=True,
    help="Check only files and signature, and run nothing; requires --key.",
)
@click.option(
    "--on",
    "devices",
    multiple=True,
    metavar="DEVICE",
    help="Run the program on this device and not here: ssh://[USER@]HOST[:PORT], adb:SERIAL or exec:COMMAND, with NAME= before it to name "
    "it (repeatable). Writes a record of it beside the bundle.",
)
@click.option(
    "--bench", is_flag=True, help="With --on: also measure the device under a load of half a minute."
)
@file_option("--sign", "With --on: sign the record with this private key.", exists=True)
@click.option(
    "--require-device",
    metavar="DEVICE",
    help="Run nothing, and require a record by which the bundle passed on this device, or on one with this processor: an id of the "
    "record, or e.g. arm64. The record was written on this machine or is signed with --key.",
)
@file_option("--record", "The record of devices. [default: NAME.devices.json beside the bundle]")
@offline_option
@common_options
def verify(
    path: Path,
    write_vectors: Path | None,
    other_vectors: Path | None,
    signature_only: bool,
    devices: tuple[str, ...],
    bench: bool,
    sign: Path | None,
    require_device: str | None,
    record: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Check a bundle's files, run it and compare its vectors.

    BUNDLE is the folder or the .tar.zst archive of a bundle. Its vectors are compared with those of the full-precision
    model, which is fetched from the source named in the manifest if the bundle was made on this machine or its model is in
    the catalogue; otherwise name it with --model.
    Exit code 13: verification failed; 20: the bundle was not verified; 21: it is not signed with --key; 24: a device failed, or has no
    record.
    """
    from edgepack import python_api

    mode_of(click.get_current_context(), MODES)
    if signature_only:
        _say_signed(path, options, as_json)
        return
    if require_device is not None:
        asked = {name: options[name] for name in ("target", "min_cosine", "max_unpacked", "key")}
        _say_required(path, python_api.check_device(path, require_device, record=record, **asked), as_json)
        return
    if devices:
        options |= {"bench": bench, "record": record, "sign": sign}
        password = None if sign is None else password_of(sign)
        found = python_api.verify_on(path, devices, **options, password=password, progress=True)
        _say_devices(found, as_json)
        return
    options |= {"write_vectors": write_vectors, "other_vectors": other_vectors}
    result = python_api.verify(path, **options, progress=True)
    if as_json:
        print_json(asdict(result))
    else:
        from edgepack.reports import text

        print_rich(text.render_verification(result))
    if result.status != "passed":
        raise click.exceptions.Exit(NotVerifiedError.exit_code)


def _say_required(path: Path, found: DeviceResult, as_json: bool) -> None:
    if as_json:
        print_json(asdict(found))
    else:
        cosine = found.verification.mean_cosine
        say(
            f"{path}: passed on {foreign(found.id)} ({foreign(found.device.machine)}), mean cosine {cosine:.4f}, {foreign(found.at)}"
        )


def _say_devices(found: OnDevices, as_json: bool) -> None:
    """The table or JSON, and each failure in two lines; the exit code is the first's."""
    from edgepack.recorded.devices import render_devices

    if as_json:
        results, failures = ([asdict(each) for each in some] for some in (found.results, found.failures))
        print_json({"results": results, "failures": failures, "record": str(found.record or "")})
    else:
        print_rich(render_devices(found))
    for failure in found.failures:
        say(f"error: {failure.message}", err=True)
        if failure.hint:
            say(f"hint: {failure.hint}", err=True)
    codes = [failure.exit_code for failure in found.failures]
    codes += [NotVerifiedError.exit_code for each in found.results if each.status != "passed"]
    if codes:
        raise click.exceptions.Exit(codes[0])


def _say_signed(path: Path, options: Mapping[str, Any], as_json: bool) -> None:
    from edgepack import python_api

    if options["key"] is None:
        raise click.UsageError("--signature-only requires --key")
    asked = {name: options[name] for name in ("key", "min_version", "max_unpacked")}
    found = python_api.check_signature(path, **asked)
    if as_json:
        print_json(asdict(found))
    else:
        say(f"{found.name}: {found.files} files as signed with the key {found.key[:12]}…")


@click.command(epilog=example("edgepack report dist/all-MiniLM-L6-v2-linux-x86-min --html report.html"))
@click.argument("path", metavar="BUNDLE", type=click.Path(path_type=Path))
@prices_option
@file_option("--html", "Also write the report as a web page.", replaces=PAGE)
@file_option(
    "--bench",
    "Show on the page what `embed --bench --json` measured on a device, from this file.",
    exists=True,
)
@file_option(
    "--key",
    "Require that a bundle that was not made on this machine is signed with this public key.",
    exists=True,
)
@common_options
def report(
    path: Path, prices: Path | None, html: Path | None, bench: Path | None, key: Path | None, as_json: bool
) -> None:
    """Show a bundle's size by component and its download cost.

    What the report beside the bundle says of its vectors is shown as a result only if it was written on this machine, or is signed
    with --key. Otherwise it is what its maker says.
    """
    from edgepack import python_api
    from edgepack.reports import text

    result = python_api.report(path, prices=prices, html=html, bench=bench, key=key)
    if as_json:
        print_json(text.as_json(result))
    else:
        print_rich(text.render(result))


@click.command(epilog=example("edgepack inspect ./my-model"))
@model_argument
@reading_options
@offline_option
@common_options
def inspect(model: str | None, reading: Reading, offline: bool, as_json: bool) -> None:
    """Inspect a model and recommend a recipe."""
    from edgepack import python_api
    from edgepack.models.inspection import as_dict
    from edgepack.reports.inspection import render_inspection

    inspection = python_api.inspect(model, reading=reading, offline=offline, progress=not as_json)
    if as_json:
        print_json(as_dict(inspection))
    else:
        print_rich(render_inspection(inspection))


@click.command(
    cls=WithModel,
    context_settings=ANY_FLAG,
    options_metavar="[OPTIONS] [MODEL]",
    epilog=example("edgepack fetch ./my-model --target linux-x86-min"),
)
@click.pass_context
@chosen_target_option
@model_option
@reading_options
@set_option
@common_options
def fetch(
    click_context: click.Context,
    target_name: str | None,
    model: str | None,
    reading: Reading,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Download everything that a build with --offline needs."""
    from edgepack.models.find.source import ingest
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import load_plugins
    from edgepack.suitability.default import target_for

    host = load_plugins()
    overrides, words = with_flags(host, target_name, overrides, click_context)
    model = one_model(*words, model)
    with host_context(host=host) as context:
        target = target_for(target_name, model, overrides, reading, context=context)
        builder, story = host.builder_of(target), context.story
        # Its ``make`` refuses what cannot be built, before anything is fetched.
        builder.create(target, context)
        with story.step("model"):
            source = ingest(model, reading=target.model.reading, context=context)
        with story.step("runtime"):
            builder.fetch(target, context)
        if target.model.gate == "full":
            from edgepack.verifier.tasks.full_gate import fetch_tasks
            from edgepack.verifier.tasks.wordnet import fetch_wordnet

            with story.step("gate"):
                fetch_wordnet(context=context)
                fetch_tasks(source, context=context)
    if as_json:
        print_json({"model": source.name, "cache": str(context.store.root)})
    else:
        say(f"{source.name} can now be built for {target.name} with --offline")
