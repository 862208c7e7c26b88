"""The command that makes all bundles of a project."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from edgepack.cli.help import example
from edgepack.cli.options import beginning_with, common_options, file_option, names_of, offline_option
from edgepack.cli.output import print_json, print_rows, say
from edgepack.cli.signing import password_of

if TYPE_CHECKING:
    from edgepack.project.jobs import Result
    from edgepack.records.device import DeviceProof


def _complete_name(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of the project in the current folder; nothing where there is none, or one that is wrong."""
    from edgepack.errors import EdgepackError
    from edgepack.project.file import find_project
    from edgepack.project.matrix import cells_of

    try:
        cells = cells_of(find_project())
    except EdgepackError:
        return []
    return beginning_with(incomplete, dict.fromkeys(name for cell in cells for name in cell.names))


@click.command(epilog=example("edgepack build", "edgepack build my-model:linux-x86-min --force"))
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_complete_name)
@click.option(
    "-p",
    "--project",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Project file. [default: edgepack.toml, else [tool.edgepack] in pyproject.toml]",
)
@click.option("-n", "--dry-run", is_flag=True, help="List the bundles that would be built; build none.")
@click.option("-f", "--force", is_flag=True, help="Rebuild bundles that are up to date.")
@click.option("-j", "--jobs", type=int, metavar="N", help="Build N bundles at once.  [default: 1]")
@click.option("--shard", metavar="K/N", help="Build only the K-th of N parts, e.g. 3/8 in a CI matrix.")
@click.option(
    "--store",
    metavar="ADDRESS",
    help="Store to share finished bundles with other machines: a folder, s3://BUCKET/NAME, https://… "
    "[default: EDGEPACK_STORE, else `store` in the project file]",
)
@click.option(
    "--executor",
    metavar="NAME",
    shell_complete=names_of("executor"),
    help="Build on a plugin's workers, e.g. dask; requires a store.",
)
@click.option("--scheduler", metavar="ADDRESS", help="The executor's address, e.g. tcp://HOST:8786.")
@file_option(
    "--sign", "Sign the bundles and their archives with this private key; see `edgepack sign`.", exists=True
)
@click.option(
    "--on",
    "on_devices",
    is_flag=True,
    help="Prove the bundles on the project's [devices] that answer, each on those with its system and processor.",
)
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write a report of all bundles: a page (.html) or JSON (.json).",
)
@offline_option
@common_options
def build(
    names: tuple[str, ...],
    file: Path | None,
    sign: Path | None,
    on_devices: bool,
    report_file: Path | None,
    offline: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Build the bundles of a project whose inputs changed.

    NAME selects bundles: a model, a target or MODEL:TARGET of the project. Without NAME, all bundles are built. A bundle
    that fails does not stop the others; the exit code is that of the first failure.
    """
    if on_devices and options["dry_run"]:
        raise click.UsageError("--on proves what was built, and --dry-run builds nothing")
    from edgepack import python_api
    from edgepack.project.report import COLUMNS, as_dict, require_form, row_of, summary, write_report

    if report_file is not None:
        require_form(report_file)
    started = time.monotonic()
    asked: dict[str, Any] = {"key": sign, "password": None if sign is None else password_of(sign)}
    asked |= {"offline": offline, "progress": not as_json}
    results = python_api.build(file, only=names, **options, **asked)
    proofs = []
    if on_devices:
        proofs = python_api.prove(results, project=file, force=options["force"], **asked)
    seconds = time.monotonic() - started
    if report_file is not None:
        write_report(report_file, results, seconds=seconds)
    if as_json:
        devices = {"devices": [asdict(each) for each in proofs]} if on_devices else {}
        print_json({**as_dict(results), **devices})
    else:
        print_rows([row_of(each) for each in results], as_json=False, columns=COLUMNS)
        if on_devices:
            print_rows(
                [_proof_row(each) for each in proofs], as_json=False, columns=("bundle", "device", "state")
            )
        say(summary(results, seconds=seconds), err=True)
    if failed := [each for each in results if each.error]:
        _tell_hints(failed)
        raise click.exceptions.Exit(failed[0].error.exit_code if failed[0].error else 1)
    if unproved := [each.exit_code for each in proofs if each.exit_code]:
        raise click.exceptions.Exit(unproved[0])


def _proof_row(proof: DeviceProof) -> dict[str, str]:
    state = f"{proof.state}{f': {proof.reason}' if proof.reason else ''}"
    return {"bundle": proof.label, "device": proof.device, "state": state}


def _tell_hints(failed: list[Result]) -> None:
    """Print the hint of each failure: the table says what is wrong."""
    for each in failed:
        if each.error and each.error.hint:
            say(f"{each.label}: {each.error.hint}", err=True)
