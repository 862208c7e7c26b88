"""How many small mistakes the unit tests notice, in the modules where one costs most. For edgepack's maintainers.

    python benchmarks/mutants.py                           # a sample of every module's mutants
    python benchmarks/mutants.py --only report/cost --all  # every mutant of some modules

mutmut makes the mutants, each with one change: another operator, a number one higher, an argument that is None or gone,
an assignment of None, a condition that always or never holds. What only changes texts is left out: string literals, and
what is raised. Each mutant meets the tests of its module in a forked process, in memory: no file is changed. It is killed
when a test fails, when nothing can be imported, or when the tests take longer than they may.
"""

import argparse
import difflib
import gc
import importlib.util
import math
import os
import random
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
    "passes/int8_dynamic": ("passes/test_one_product.py", "passes/test_int8_dynamic.py"),
    "passes/int8_static": ("passes/test_one_product.py", "passes/test_int8_static.py"),
    "passes/int8_weights": ("passes/test_one_product.py", "passes/test_int8_weights.py"),
    "passes/int4": ("passes/test_one_product.py", "passes/test_int4.py"),
    "bundle/manifest": ("bundle/test_manifest.py", "bundle/test_sections.py", "bundle/test_assemble.py"),
    "report/cost": ("report/test_cost.py",),
}
"""Module → the unit tests that are to notice its mistakes, those that do so soonest first."""
PYTEST = ("-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "pytest_timeout")
"""How pytest starts soonest: without other plugins, and without explanations that nobody reads."""
PRELOADED = ("pytest_timeout", "numpy", "onnx", "onnxruntime", "tokenizers", "torch", "rich.table")
"""What tests import that is large and none of ours: once, before the processes part."""
PATIENCE = 6
"""How much longer than their CPU time tests may take: others may want the processor."""


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


class Visitor(MutationVisitor):
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
    parser.add_argument("--limit", type=float, default=20.0, help="CPU seconds for the tests of one mutant")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in PRELOADED:
        import_module(name)
    gc.freeze()
    console = Console(soft_wrap=True)
    made = table(
        "module", Number("mutants"), Number("tried"), Number("killed"), Number("survived"), Number("share")
    )
    totals = [0, 0, 0]
    for module in options.only:
        every = list(mutants_of(module))
        count = len(every) if options.all else min(options.sample, len(every))
        chosen = sorted(
            random.Random(f"{options.seed} {module}").sample(every, count), key=lambda mutant: mutant.line
        )
        require_green(module, limit=options.limit)
        survivors = []
        for mutant in chosen:
            if fate(mutant, limit=options.limit) is Fate.SURVIVED:
                survivors.append(mutant)
                console.print(f"{module}.py:{mutant.line}\n{mutant.change}", markup=False, highlight=False)
        counts = len(every), len(chosen), len(chosen) - len(survivors)
        totals = [total + more for total, more in zip(totals, counts, strict=True)]
        add_row(made, module, *figures(*counts))
    add_row(made, "all", *figures(*totals), style="bold")
    console.print(made)


def figures(every: int, tried: int, killed: int) -> Iterator[str]:
    yield from (str(every), str(tried), str(killed), str(tried - killed))
    yield f"{killed / tried:.0%}" if tried else "-"


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


def require_green(module: str, *, limit: float) -> None:
    """Ends the program when a module's tests fail, or take too long, without any mistake."""
    untouched = Mutant(module=module, code=(SOURCES / f"{module}.py").read_text(), line=0, change="")
    if (found := fate(untouched, limit=limit)) is not Fate.SURVIVED:
        sys.exit(f"the tests of {module} {'fail' if found is Fate.KILLED else 'wait for something'}")


def fate(mutant: Mutant, *, limit: float) -> Fate:
    """What the tests make of a mutant, in a process of its own that dies with all it started."""
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit)))
        os._exit(tested(mutant))
    try:
        ends = time.monotonic() + PATIENCE * limit
        while time.monotonic() < ends:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                child = 0
                return Fate.KILLED if status else Fate.SURVIVED
            time.sleep(0.01)
        return Fate.TIMED_OUT
    finally:
        if child:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)


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
