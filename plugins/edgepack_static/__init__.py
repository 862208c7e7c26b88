"""Bundles of static embeddings for Linux: a table, a tokenizer and a program that takes means. No transformer, no ONNX Runtime."""

from collections.abc import Iterable

from edgepack.api import OptionTable, Spec, Target, hookimpl, lazy, missing_tools

OPTIONS: OptionTable = {"serve": False}


def missing(target: Target) -> Iterable[str]:
    """Missing tools to compile the program."""
    return missing_tools(packages={"ziglang": "zig"})


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="builder",
            name="static",
            summary="a folder for Linux with static embeddings: a table and a native program without ONNX Runtime",
            make=lazy("edgepack_static.builder:create_builder"),
            formats=("table",),
            options=lambda: OPTIONS,
            missing=missing,
            fetch=lazy("edgepack_static.builder:fetch"),
        )
    ]
