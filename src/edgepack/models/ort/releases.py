"""Releases of ONNX Runtime as their wheels are: pinned by content, and what each of them runs (``releases.toml``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepack.context import BuildContext
from edgepack.errors import UsageError
from edgepack.fetch.wheels import Wheel, is_at_hand, wheel_files
from edgepack.terminal_text import did_you_mean
from edgepack.toml_schema import load_toml

if TYPE_CHECKING:
    import onnx

ARCHITECTURES = ("x86_64", "aarch64")
"""What there are wheels for, of Linux with glibc."""
DISTRIBUTION = "onnxruntime"
PYTHON = "cp311"
"""The library in a wheel does not depend on the Python that it is for: one file serves every building machine."""

FILES = ("*/capi/libonnxruntime.so*", "onnxruntime/LICENSE", "onnxruntime/ThirdPartyNotices.txt")
"""What is taken of a wheel."""


@dataclass(frozen=True, kw_only=True)
class StockRelease:
    """A release of ONNX Runtime that is known by its wheels."""

    version: str
    opset: int
    """The newest of ai.onnx that it takes."""
    ir: int
    """The newest version of ONNX's file format."""
    ort_format: int
    """The version of the ORT format that it writes."""
    wheels: Mapping[str, Wheel]
    """By architecture, as ``platform.machine()`` says it."""


@dataclass(frozen=True, kw_only=True)
class _Kernel:
    """One version of an operator, and which releases run it."""

    since: int
    known: int
    """Index of the first release that has heard of it."""
    first: int
    last: int
    """Indexes of releases."""
    runs: bool


@cache
def _data() -> dict[str, Any]:
    return load_toml(files("edgepack.models.ort") / "releases.toml")


@cache
def stock_releases() -> tuple[StockRelease, ...]:
    """All that are known, the newest last."""
    return tuple(map(_release, _data()["release"]))


def _release(table: Mapping[str, Any]) -> StockRelease:
    version = table["version"]
    wheels = {
        arch: Wheel(
            name=DISTRIBUTION,
            version=version,
            sha256=table[arch]["sha256"],
            size=table[arch]["size"],
            python=PYTHON,
            platform=f"manylinux_2_28_{arch}",
        )
        for arch in ARCHITECTURES
    }
    numbers = {name: table[name] for name in ("opset", "ir", "ort_format")}
    return StockRelease(version=version, wheels=wheels, **numbers)


def stock_release(version: str) -> StockRelease:
    """The release of a version. Raises ``UsageError`` for one that nothing is known of."""
    known = {release.version: release for release in stock_releases()}
    if version not in known:
        raise UsageError(
            f"no wheel of ONNX Runtime {version} is pinned{did_you_mean(version, known)}; pinned are {', '.join(known)}",
            hint="edgepack runtime versions lists them; a wheel of another release is taken by its file, onnxruntime-….whl",
        )
    return known[version]


def stock_wheel(version: str, arch: str) -> Wheel:
    """The wheel of a release for an architecture. Raises ``UsageError``."""
    release = stock_release(version)
    if arch not in release.wheels:
        raise UsageError(
            f"ONNX Runtime {version} has no wheel for {arch}, only for {' and '.join(release.wheels)}",
            hint="a reduced runtime is compiled for it: runtime = minimal",
        )
    return release.wheels[arch]


def stock_files(wheel: Wheel, *, context: BuildContext) -> Path:
    """A wheel's library and licence texts, fetched once. Raises what ``wheel_files`` raises."""
    return wheel_files(wheel, keep=FILES, context=context)


def has_stock_files(wheel: Wheel, *, context: BuildContext) -> bool:
    return is_at_hand(wheel, keep=FILES, context=context)


@cache
def _kernels() -> Mapping[tuple[str, str], tuple[_Kernel, ...]]:
    """(Domain, operator) → its versions, the oldest first."""
    order = {release.version: index for index, release in enumerate(stock_releases())}
    return {
        (domain, name): tuple(_kernel(word, order) for word in words.split())
        for domain, table in _data()["kernels"].items()
        for name, words in table.items()
    }


def _kernel(word: str, order: Mapping[str, int]) -> _Kernel:
    """``23@1.23.2-1.30.0^1.22.1!``: version, first and last release that runs it, the first that knows it, whether none runs it."""
    words, _, known = word.removesuffix("!").partition("^")
    since, _, span = words.partition("@")
    first, _, last = span.partition("-")
    return _Kernel(
        since=int(since),
        known=order.get(known or first, 0),
        first=order.get(first, 0),
        last=order.get(last, len(order) - 1),
        runs=not word.endswith("!"),
    )


def lacking(model: onnx.ModelProto, release: StockRelease) -> tuple[str, ...]:
    """Features that a release lacks to run a model, e.g. ``("opset 23", "Attention 23")``; sorted, nothing where it runs it.

    Element types are not looked at, nor operators of other domains than ai.onnx and com.microsoft.
    """
    found = [f"IR version {model.ir_version}"] if model.ir_version > release.ir else []
    opset = _opset(model.opset_import)
    found += [f"opset {opset}"] if opset > release.opset else []
    index = stock_releases().index(release)
    missing = {
        name
        for domain, operator, at in _used(model)
        if (name := _missing(domain, operator, at, index)) is not None
    }
    return (*found, *sorted(missing))


@dataclass(frozen=True, kw_only=True)
class ReleaseSupport:
    """Support of a release for a model."""

    version: str
    missing: tuple[str, ...]
    """What it lacks, e.g. ``opset 23`` and ``Attention 23``; empty: it runs the model."""


def release_support(model: onnx.ModelProto) -> tuple[ReleaseSupport, ...]:
    """How each known release gets on with a model, the newest last."""
    return tuple(
        ReleaseSupport(version=release.version, missing=lacking(model, release))
        for release in stock_releases()
    )


def running(model: onnx.ModelProto) -> tuple[StockRelease, ...]:
    """The known releases that run a model, the newest last."""
    return tuple(release for release in stock_releases() if not lacking(model, release))


def having(kernels: Iterable[str]) -> tuple[StockRelease, ...]:
    """The known releases that have all of some kernels, e.g. ``ai.onnx Attention 23`` or ``Attention 23``; the newest last.

    Without a version any will do; what follows it, element types, is not looked at.
    """
    wanted = [words.split() for words in kernels]
    wanted = [words if words[0] in _data()["kernels"] else ["ai.onnx", *words] for words in wanted]
    return tuple(
        release
        for index, release in enumerate(stock_releases())
        if all(_is_in(words[0], words[1], words[2:3], index) for words in wanted)
    )


def _is_in(domain: str, operator: str, since: Sequence[str], index: int) -> bool:
    versions = [each for each in _kernels().get((domain, operator), ()) if each.runs]
    return any(
        each.first <= index <= each.last and (not since or since[0] == str(each.since)) for each in versions
    )


def in_words(releases: Sequence[StockRelease]) -> str:
    """``1.23.2 to 1.32.0``, or the only one; empty for none."""
    if len(releases) < 2:
        return "".join(release.version for release in releases)
    return f"{releases[0].version} to {releases[-1].version}"


def writers_of(ort_format: int) -> str:
    """Which releases write a version of the ORT format, in words."""
    known = stock_releases()
    if same := [release for release in known if release.ort_format == ort_format]:
        return f"as ONNX Runtime {in_words(same)} write it"
    older = ort_format < known[0].ort_format
    nearest = known[0] if older else known[-1]
    return f"as a release {'older' if older else 'newer'} than {nearest.version} writes it"


def brought(release: StockRelease) -> tuple[str, ...]:
    """Operators that no older known release runs in any version, e.g. ``("Attention", "com.microsoft.MoE")``; sorted."""
    index = stock_releases().index(release)
    firsts = {
        name: min((each.first for each in kernels if each.runs), default=-1)
        for name, kernels in _kernels().items()
    }
    new = [name for name, first in firsts.items() if index and first == index]
    return tuple(_named(domain, name) for domain, name in sorted(new))


def _missing(domain: str, operator: str, opset: int, index: int) -> str | None:
    """Operator that a release does not run for a node: of the versions that the release knows, the newest up to the opset."""
    kernels = _kernels().get((domain, operator), ())
    version = next(
        (each for each in reversed(kernels) if each.since <= opset and each.known <= index),
        next((each for each in reversed(kernels) if each.since <= opset), None),
    )
    if version is None:
        return _named(domain, operator)
    if version.runs and version.first <= index <= version.last:
        return None
    return f"{_named(domain, operator)} {version.since}"


def _named(domain: str, operator: str) -> str:
    return operator if domain == "ai.onnx" else f"{domain}.{operator}"


def _opset(imports: Iterable[onnx.OperatorSetIdProto]) -> int:
    return max((each.version for each in imports if each.domain in ("", "ai.onnx")), default=1)


def _used(model: onnx.ModelProto) -> Iterator[tuple[str, str, int]]:
    """Domain, operator and opset of every node, those of subgraphs and functions too."""
    functions = {(each.domain, each.name) for each in model.functions}
    parts: list[tuple[Sequence[onnx.NodeProto], int]] = [(model.graph.node, _opset(model.opset_import))]
    parts += [(each.node, _opset(each.opset_import)) for each in model.functions]
    while parts:
        nodes, opset = parts.pop()
        for node in nodes:
            inner = [each.g for each in node.attribute if each.HasField("g")]
            inner += [graph for each in node.attribute for graph in each.graphs]
            parts += [(graph.node, opset) for graph in inner]
            domain = node.domain or "ai.onnx"
            if (node.domain, node.op_type) not in functions and domain in _data()["kernels"]:
                yield domain, node.op_type, opset if domain == "ai.onnx" else 1
