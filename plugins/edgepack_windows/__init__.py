"""Windows on x86-64: the platform, three builders, and their targets."""

from collections.abc import Callable, Iterable
from importlib.resources import files
from importlib.resources.abc import Traversable

from edgepack.api import Spec, hookimpl, lazy

TARGETS = ("windows-x64", "windows-x64-fast", "windows-x64-static")


def report_rows() -> Callable[..., object]:
    """Function that writes the report's rows."""
    from edgepack_windows.rows import windows_rows

    return windows_rows


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="platform",
            name="windows-x86_64",
            summary="programs for Windows on x86-64 that need kernel32 and nothing else",
            make=lazy("edgepack_windows.platforms:windows"),
        ),
        Spec(
            axis="builder",
            name="windows",
            summary="one program for Windows on x86-64 with a pruned ONNX Runtime inside",
            make=lazy("edgepack_windows.builder:create_builder"),
            options=lazy("edgepack_windows.builder:OPTIONS"),
            missing=lazy("edgepack_windows.builder:missing"),
            fetch=lazy("edgepack_windows.builder:fetch"),
        ),
        Spec(
            axis="builder",
            name="windows-static",
            summary="one program for Windows on x86-64 with static embeddings: a table, without ONNX Runtime",
            make=lazy("edgepack_windows.encoders:create_static"),
            formats=("table",),
            options=lazy("edgepack_windows.encoders:STATIC"),
            missing=lazy("edgepack_windows.encoders:missing"),
            fetch=lazy("edgepack_windows.encoders:fetch"),
        ),
        Spec(
            axis="builder",
            name="windows-engine",
            summary="one program for Windows on x86-64 with edgepack's own kernels: an int8 encoder as a plan, without ONNX Runtime",
            make=lazy("edgepack_windows.encoders:create_engine"),
            formats=("plan",),
            options=lazy("edgepack_windows.encoders:ENGINE"),
            missing=lazy("edgepack_windows.encoders:missing"),
            fetch=lazy("edgepack_windows.encoders:fetch"),
        ),
        Spec(
            axis="report",
            name="windows",
            summary="Windows",
            make=report_rows,
        ),
    ]


@hookimpl
def edgepack_targets() -> Iterable[Traversable]:
    return [files(__name__) / f"{name}.toml" for name in TARGETS]
