"""The command that makes all bundles of a project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from edgepack.cli.help import example
from edgepack.cli.options import beginning_with, common_options, offline_option
from edgepack.cli.output import print_json, print_rows

if TYPE_CHECKING:
    from edgepack.project.build import Result

SCHEMA = 1


def _complete_name(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Of the project in the current folder; nothing where there is none, or one that is wrong."""
    from edgepack.errors import EdgepackError
    from edgepack.project.build import cells_of
    from edgepack.project.file import find_project

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
@offline_option
@common_options
def build(
    names: tuple[str, ...], file: Path | None, dry_run: bool, force: bool, offline: bool, as_json: bool
) -> None:
    """Build the bundles of a project whose inputs changed.

    NAME selects bundles: a model, a target or MODEL:TARGET of the project. Without NAME, all bundles are built. A bundle
    that fails does not stop the others; the exit code is that of the first failure.
    """
    from edgepack import library

    results = library.build(
        file, only=names, dry_run=dry_run, force=force, offline=offline, progress=not as_json
    )
    if as_json:
        print_json({"schema": SCHEMA, "bundles": [_as_dict(each) for each in results]})
    else:
        rows = [_row(each) for each in results]
        print_rows(rows, as_json=False, columns=("bundle", "state", "archive MB", "mean cosine", "seconds"))
    if failed := [each.error for each in results if each.error]:
        raise click.exceptions.Exit(failed[0].exit_code)


def _row(found: Result) -> dict[str, str]:
    report = found.report
    return {
        "bundle": found.label,
        "state": f"failed: {found.error.message}" if found.error else found.state,
        "archive MB": f"{(report.archive_bytes or 0) / 1e6:.2f}" if report else "",
        "mean cosine": f"{report.verification.mean_cosine:.4f}" if report else "",
        "seconds": f"{found.seconds:.1f}",
    }


def _as_dict(found: Result) -> dict[str, Any]:
    error = found.error
    return {
        "bundle": found.label,
        "state": found.state,
        "path": None if found.path is None else str(found.path),
        "digest": found.report.digest if found.report else None,
        "archive_bytes": found.report.archive_bytes if found.report else None,
        "error": None if error is None else {"message": error.message, "hint": error.hint},
    }
