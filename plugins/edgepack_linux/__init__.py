"""Bundles for Linux: a reduced ONNX Runtime, a small model and a runner."""

from collections.abc import Callable, Iterable

from edgepack.api import Spec, Target, hookimpl, lazy, missing_tools


def missing(target: Target) -> Iterable[str]:
    """Tools that compiling a runtime and freezing the runner need."""
    return missing_tools("cmake", "ninja", "objcopy", packages={"ziglang": "zig", "capstone": "capstone"})


def report_rows() -> Callable[..., object]:
    """Function that writes the report's rows."""
    from edgepack_linux.stock_price import price_rows

    return price_rows


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="builder",
            name="linux",
            summary="a folder for Linux: reduced ONNX Runtime, small model, native or frozen runner",
            make=lazy("edgepack_linux.builder:create_builder"),
            options=lazy("edgepack_linux.builder:OPTIONS"),
            missing=missing,
            fetch=lazy("edgepack_linux.builder:fetch"),
        ),
        Spec(
            axis="report",
            name="stock-runtime",
            summary="price of the stock runtime",
            make=report_rows,
        ),
    ]
