"""Bundles whose runtime is OpenVINO, on the processor: an example of a builder that has nothing of ONNX Runtime in its bundles."""

from collections.abc import Iterable
from pathlib import Path

from edgepack.api import Spec, Target, hookimpl, lazy, missing_tools


def missing(target: Target) -> Iterable[str]:
    """Missing tools to compile the program."""
    return missing_tools(packages={"ziglang": "zig"})


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="builder",
            name="openvino",
            summary="a folder for Linux on x86-64: OpenVINO for the processor, out of its wheel, and a native program",
            make=lazy("edgepack_openvino.builder:create_builder"),
            formats=("openvino",),
            missing=missing,
            fetch=lazy("edgepack_openvino.builder:fetch"),
        )
    ]


@hookimpl
def edgepack_targets() -> Iterable[Path]:
    return [Path(__file__).with_name("linux-x86-openvino.toml")]
