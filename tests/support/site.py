"""Parts of pages that are written from the code when the docs site is built: a page marks each with ``<!-- written: NAME -->``."""

import json
import re
from collections.abc import Callable

import edgepack
from edgepack.models.inspection import ModelInspection
from edgepack.project.jobs import Result
from edgepack.records import device as device_records
from edgepack.records import report as report_records
from edgepack.records.runtime import LevelProof
from edgepack.records.target import Reading
from edgepack.runner.native.options import help_of
from edgepack.signing.signatures import Signed
from tests.support.golden import ROOT
from tests.support.interface import api_reference, classes_in, interface_page, records_reference
from tests.support.reference import bash_completion, command_help, kit_checks
from tests.support.schema_tables import schema_tables

MARK = re.compile(r"^<!-- written: ([\w. -]+) -->$", re.MULTILINE)
RECORDS = (
    Reading,
    ModelInspection,
    Result,
    *classes_in(report_records),
    *classes_in(device_records),
    LevelProof,
    Signed,
)
"""What the functions of ``edgepack`` take and return."""


def with_parts(markdown: str) -> str:
    """A page with the text of each part in the place of its mark."""
    return MARK.sub(lambda mark: PARTS[mark[1]](), markdown)


def _schema(name: str) -> Callable[[], str]:
    return lambda: schema_tables(json.loads((ROOT / f"docs/schemas/{name}.json").read_text("utf-8")))


def _program_help(command: str) -> Callable[[], str]:
    return lambda: "```text\n" + help_of(command).partition("\n\n")[2] + "```\n"


def _file(language: str, path: str) -> Callable[[], str]:
    return lambda: f"```{language}\n{(ROOT / path).read_text('utf-8')}```\n"


PARTS: dict[str, Callable[[], str]] = {
    "commands": command_help,
    "names for plugins": interface_page,
    "checks of the kit": kit_checks,
    "functions": lambda: api_reference(edgepack),
    "records": lambda: records_reference(RECORDS),
    **{name: _schema(name) for name in ("manifest", "report", "devices")},
    "embed": _program_help("embed"),
    "embed search": _program_help("search"),
    "embed serve": _program_help("serve"),
    "embed.h": _file("c", "src/edgepack/runner/native/csrc/libembed/embed.h"),
    "embed.d.mts": _file("ts", "plugins/edgepack_web/js/embed.d.mts"),
    "index.d.mts": _file("ts", "plugins/edgepack_npm/js/index.d.mts"),
    "apply.sh": _file("sh", "plugins/edgepack_updates/data/apply.sh"),
    "mender-module.sh": _file("sh", "plugins/edgepack_updates/data/mender-module.sh"),
    "completion": lambda: f"```sh\n{bash_completion()}```\n",
}
