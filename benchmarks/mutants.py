"""How many small mistakes the unit tests notice, in the modules where one costs most. For edgepack's maintainers.

    python benchmarks/mutants.py                           # a sample of every module's mutants
    python benchmarks/mutants.py --only reports/cost --all  # every mutant of some modules
    python benchmarks/mutants.py --markdown docs/mutants.md  # writes the table and the survivors there, too

mutmut makes the mutants, each with one change: another operator, a number one higher, an argument that is None or gone,
an assignment of None, a condition that always or never holds. What only changes texts is left out: string literals, and
what is raised. Each mutant meets the tests of its module in a forked process, in memory: no file is changed. It is killed
when a test fails, when nothing can be imported, or when the tests use more processor time or memory than they may; how
fast the machine is and what else it does have no say. A file of ``--markdown`` keeps the reasons that it gives for
survivors that are still there.
"""

import argparse
import difflib
import gc
import importlib.util
import math
import os
import random
import re
import resource
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import libcst
import pytest
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators, operator_string
from mutmut.mutation.pragma_handling import IgnoredCode
from rich.console import Console

from edgepack.tables import Number, add_row, table

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "edgepack"
RELEASE = "foundry/releases/ort_1_21"
TESTS: Mapping[str, tuple[str, ...]] = {
    "operators/config": ("operators",),
    "operators/domains": ("operators", f"{RELEASE}/test_registrations.py"),
    "operators/types": ("operators", f"{RELEASE}/test_registrations.py"),
    f"{RELEASE}/dispatch": (f"{RELEASE}/test_dispatch.py", f"{RELEASE}/test_release.py"),
    f"{RELEASE}/isa": (f"{RELEASE}/test_isa.py", f"{RELEASE}/test_release.py"),
    f"{RELEASE}/levels": (f"{RELEASE}/test_isa.py", "foundry/test_feature_levels.py"),
    f"{RELEASE}/overlay": (f"{RELEASE}/test_overlay.py", f"{RELEASE}/test_release.py"),
    f"{RELEASE}/planner": (f"{RELEASE}/test_planner.py", f"{RELEASE}/test_release.py"),
    f"{RELEASE}/registrations": (f"{RELEASE}/test_registrations.py", f"{RELEASE}/test_release.py"),
    f"{RELEASE}/release": (f"{RELEASE}/test_release.py",),
    f"{RELEASE}/type_filter": (f"{RELEASE}/test_registrations.py",),
    f"{RELEASE}/typecontrol": (f"{RELEASE}/test_registrations.py", f"{RELEASE}/test_release.py"),
    "quantization/calibration": ("quantization/test_calibration.py",),
    "quantization/embeddings": ("quantization/test_graphs.py", "passes/test_one_product.py"),
    "quantization/entropy_coded": ("quantization/test_entropy_coded.py",),
    "quantization/int8": ("quantization/test_int8.py",),
    "quantization/layers": ("quantization/test_graphs.py",),
    "quantization/observers": ("quantization/test_graphs.py",),
    "quantization/per_token": ("quantization/test_graphs.py",),
    "quantization/rounding": ("quantization/test_rounding.py",),
    "passes/fast_gelu": ("passes/test_fast_gelu.py",),
    "passes/int8_dynamic": ("passes/test_one_product.py", "passes/test_int8_dynamic.py"),
    "passes/int8_static": ("passes/test_one_product.py", "passes/test_int8_static.py"),
    "passes/int8_weights": ("passes/test_one_product.py", "passes/test_int8_weights.py"),
    "passes/int4": ("passes/test_one_product.py", "passes/test_int4.py"),
    "bundles/manifest": ("bundles/test_manifest.py", "bundles/test_sections.py", "bundles/test_assemble.py"),
    "reports/cost": ("reports/test_cost.py", "../plugins/test_reports.py"),
}
"""Module → the unit tests that are to notice its mistakes, those that do so soonest first."""
PYTEST = ("-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "pytest_timeout")
"""How pytest starts soonest: without other plugins, and without explanations that nobody reads."""
PRELOADED = (
    "pytest_timeout",
    "numpy",
    "onnx",
    "onnxruntime",
    "tokenizers",
    "safetensors.numpy",
    "rich.table",
)
"""What tests import that is large and none of ours: once, before the processes part."""
PATIENCE = 5
"""How much more processor time than without a mistake tests may use."""
LEAST_SECONDS = 30
IDLE = 120
"""Seconds without a hundredth of processor time, after which tests wait for what never comes."""
MEMORY = 8 * 2**30
"""Bytes of addresses that tests may have: a loop that never ends may collect."""
UNEXPLAINED = "No reason is known."
HEAD = ("module", "mutants", "tried", "killed", "of them out of time", "survived", "share")
MARK = "\n<!-- benchmarks/mutants.py writes what follows; reasons are written by hand. -->\n"


class Fate(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A module with one mistake."""

    module: str
    """As in ``TESTS``."""
    code: str
    line: int
    change: str
    """What differs, as lines with a minus and lines with a plus."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What became of a module's mutants."""

    module: str
    every: int
    """How many there are."""
    chosen: int
    timed_out: int
    survivors: tuple[Mutant, ...]

    def figures(self) -> list[str]:
        killed = self.chosen - len(self.survivors)
        share = f"{killed / self.chosen:.0%}" if self.chosen else "-"
        counts = self.every, self.chosen, killed, self.timed_out, len(self.survivors)
        return [*map(str, counts), share]


class Visitor(MutationVisitor):  # type: ignore[misc]  # of which mypy is told nothing
    """mutmut's, which passes over what is raised: errors' texts."""

    def _skip_node_and_children(self, node: libcst.CSTNode) -> bool:
        return isinstance(node, libcst.Raise) or super()._skip_node_and_children(node)


@dataclass(frozen=True)
class MutantFinder(MetaPathFinder, InspectLoader):
    """Imports one module of ours as its mutant."""

    name: str
    code: str

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def get_source(self, name: str) -> str:
        return self.code


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="MODULE", choices=TESTS, default=list(TESTS))
    parser.add_argument("--sample", type=int, default=60, help="how many mutants of a module, at most")
    parser.add_argument("--all", action="store_true", help="every mutant")
    parser.add_argument("--seed", default="edgepack", help="chooses the sample")
    parser.add_argument("--markdown", type=Path, help="a page for the table and the survivors")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in PRELOADED:
        import_module(name)
    gc.freeze()
    console = Console(soft_wrap=True)
    found = []
    for module in options.only:
        every = list(mutants_of(module))
        count = len(every) if options.all else min(options.sample, len(every))
        chosen = random.Random(f"{options.seed} {module}").sample(every, count)
        found.append(tried(module, len(every), sorted(chosen, key=lambda mutant: mutant.line)))
        for mutant in found[-1].survivors:
            console.print(f"{module}.py:{mutant.line}\n{mutant.change}", markup=False, highlight=False)
        console.print(f"{module}: {found[-1].figures()[-1]}", highlight=False)
    found.append(together(found))
    made = table(HEAD[0], *map(Number, HEAD[1:]))
    for each in found:
        add_row(made, each.module, *each.figures(), style="bold" if each is found[-1] else "")
    console.print(made)
    if options.markdown:
        page = options.markdown.read_text() if options.markdown.exists() else ""
        options.markdown.write_text(page.partition(MARK)[0] + MARK + markdown(found, reasons_in(page)))


def tried(module: str, every: int, chosen: Sequence[Mutant]) -> Tried:
    limit = seconds_needed(module)
    fates = {mutant: fate(mutant, limit=limit)[0] for mutant in chosen}
    return Tried(
        module=module,
        every=every,
        chosen=len(chosen),
        timed_out=list(fates.values()).count(Fate.TIMED_OUT),
        survivors=tuple(mutant for mutant, found in fates.items() if found is Fate.SURVIVED),
    )


def together(modules: Sequence[Tried]) -> Tried:
    return Tried(
        module="all",
        every=sum(each.every for each in modules),
        chosen=sum(each.chosen for each in modules),
        timed_out=sum(each.timed_out for each in modules),
        survivors=tuple(mutant for each in modules for mutant in each.survivors),
    )


def markdown(found: Sequence[Tried], reasons: Mapping[tuple[str, str], str]) -> str:
    lines = ["", "| " + " | ".join(HEAD) + " |", "|---|" + "--:|" * (len(HEAD) - 1)]
    lines += [
        f"| `{each.module}` | " + " | ".join(each.figures()) + " |" for each in found[:-1] if each.survivors
    ]
    lines += ["| **all** | " + " | ".join(f"**{figure}**" for figure in found[-1].figures()) + " |"]
    clean = [f"`{each.module}` ({each.chosen} of {each.every})" for each in found[:-1] if not each.survivors]
    lines += ["", f"No mutant survived, of those tried, in {', '.join(clean)}."] if clean else []
    lines += ["", "## Survivors", ""]
    for mutant in found[-1].survivors:
        reason = reasons.get((mutant.module, mutant.change), UNEXPLAINED)
        lines += [f"`{mutant.module}.py:{mutant.line}`", "", "```diff", mutant.change, "```", "", reason, ""]
    return "\n".join(lines)


def reasons_in(page: str) -> dict[tuple[str, str], str]:
    """(module, change) → why that survivor may stand, as a page says it."""
    each = re.findall(r"^`([\w/]+)\.py:\d+`\n\n```diff\n(.*?)\n```\n\n(.*?)\n$", page, re.M | re.S)
    return {(module, change): reason for module, change, reason in each}


def mutants_of(module: str) -> Iterator[Mutant]:
    """All mutants of a module that Python can compile, in the order of its lines."""
    source = (SOURCES / f"{module}.py").read_text()
    visitor = Visitor(
        [each for each in mutation_operators if each[1] is not operator_string],
        IgnoredCode(no_mutate_lines=set(), ignore_node_lines=set(), ignore_pattern_lines=set()),
    )
    tree = libcst.MetadataWrapper(libcst.parse_module(source)).visit(visitor)
    seen = {source}
    for mutation in visitor.mutations:
        changed = tree.deep_replace(mutation.original_node, mutation.mutated_node)
        assert isinstance(changed, libcst.Module)
        if changed.code in seen or not compiles(changed.code):
            continue
        seen.add(changed.code)
        yield mutant_of(module, source, changed.code)


def compiles(code: str) -> bool:
    try:
        compile(code, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def mutant_of(module: str, source: str, code: str) -> Mutant:
    lines = list(difflib.unified_diff(source.splitlines(), code.splitlines(), n=0, lineterm=""))[2:]
    first = int(lines[0].split()[1].lstrip("-").partition(",")[0])
    changed = "\n".join(line for line in lines if not line.startswith("@@"))
    return Mutant(module=module, code=code, line=first, change=changed)


def seconds_needed(module: str) -> int:
    """The processor time that a module's tests may use. Ends the program when they fail without any mistake."""
    untouched = Mutant(module=module, code=(SOURCES / f"{module}.py").read_text(), line=0, change="")
    found, seconds = fate(untouched, limit=600)
    if found is not Fate.SURVIVED:
        sys.exit(f"the tests of {module} {'fail' if found is Fate.KILLED else 'wait for something'}")
    return max(math.ceil(PATIENCE * seconds), LEAST_SECONDS)


def fate(mutant: Mutant, *, limit: int) -> tuple[Fate, float]:
    """What the tests make of a mutant, in a process of its own that dies with all it started; and its processor time."""
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os._exit(tested(mutant))
    used, since = 0.0, time.monotonic()
    try:
        while time.monotonic() - since < IDLE:
            done, status, usage = os.wait4(child, os.WNOHANG)
            if done:
                child = 0
                code = os.waitstatus_to_exitcode(status)
                found = {0: Fate.SURVIVED, -signal.SIGXCPU: Fate.TIMED_OUT}.get(code, Fate.KILLED)
                return found, usage.ru_utime + usage.ru_stime
            if (seconds := processor_seconds(child)) > used:
                used, since = seconds, time.monotonic()
            time.sleep(0.02)
        return Fate.TIMED_OUT, used
    finally:
        if child:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)


def processor_seconds(process: int) -> float:
    """Of a process and what it started and waited for."""
    ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def tested(mutant: Mutant) -> int:
    """Zero when all tests pass."""
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    name = f"edgepack.{mutant.module.replace('/', '.')}"
    for ours in [each for each in sys.modules if each.partition(".")[0] == "edgepack"]:
        del sys.modules[ours]
    sys.meta_path.insert(0, MutantFinder(name, mutant.code))
    tests = [f"tests/unit/{path}" for path in TESTS[mutant.module]]
    return int(pytest.main([*PYTEST, *tests]))


if __name__ == "__main__":
    main()
