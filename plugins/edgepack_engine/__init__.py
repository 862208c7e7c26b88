"""Bundles with edgepack's own kernels: an encoder computed step by step, without ONNX Runtime and without padding."""

from collections.abc import Iterable
from importlib.resources import files
from importlib.resources.abc import Traversable

from edgepack.api import Spec, Target, hookimpl, lazy, missing_tools

TARGETS = ("linux-armv7-fast", "linux-riscv64-fast", "macos-arm64", "macos-x64")


def missing(target: Target) -> Iterable[str]:
    """Missing tools to compile the program."""
    return missing_tools(packages={"ziglang": "zig"})


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="builder",
            name="engine",
            summary="a folder for Linux or macOS: int8 encoder as a plan, native program with edgepack's own kernels, without ONNX Runtime",
            make=lazy("edgepack_engine.builder:create_builder"),
            options=lazy("edgepack_engine.options:OPTIONS"),
            formats=("plan",),
            missing=missing,
        ),
        Spec(
            axis="package",
            name="static-library",
            summary="libembed and the model in one libembed.a, to be linked into a program",
            make=lazy("edgepack_engine.static_library:create_packager"),
        ),
        Spec(
            axis="checks",
            name="pairs",
            summary="the products of an engine's plan are exact on every processor",
            make=lazy("edgepack_engine.sound:PairCheck"),
        ),
        Spec(
            axis="platform",
            name="macos",
            summary="programs for macOS on arm64 and x86-64 with an encoder of their own; not run anywhere yet",
            make=lazy("edgepack_engine.macos:macos"),
        ),
    ]


@hookimpl
def edgepack_targets() -> Iterable[Traversable]:
    return [files(__name__) / f"{name}.toml" for name in TARGETS]
