"""Bundles for programs in Go, Rust and Java, and for apps of Android: around libembed, ``edgepack bundle --as go``, ``crate``, ``jar``, ``aar``."""

from collections.abc import Iterable

from edgepack.api import Spec, hookimpl, lazy


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(
            axis="package",
            name="go",
            summary="a Go module with libembed, by cgo, as Go's proxies have it",
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
            name="jar",
            summary="a jar with libembed and the bundle, for Java 8 and newer; requires javac",
            make=lazy("edgepack_bindings.jar:create_jar"),
        ),
        Spec(
            axis="package",
            name="aar",
            summary="an archive for apps of Android, not run on a phone; requires javac",
            make=lazy("edgepack_bindings.android:create_aar"),
        ),
    ]
