"""Bundles for programs in Go and Rust, and for apps of Android: around libembed, ``edgepack bundle --as go``, ``--as crate``, ``--as aar``."""

from collections.abc import Iterable

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="package",
            name="go",
            summary="a Go module with libembed, by cgo",
            make=lazy("edgepack_bindings.package:create_go"),
        ),
        Spec(
            axis="package",
            name="crate",
            summary="a Rust crate with libembed, needs no other crate",
            make=lazy("edgepack_bindings.package:create_crate"),
        ),
        Spec(
            axis="package",
            name="aar",
            summary="an archive for apps of Android, not run on a phone; requires javac",
            make=lazy("edgepack_bindings.android:create_aar"),
        ),
    ]
