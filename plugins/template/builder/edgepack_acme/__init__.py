"""Bundles with an installer: what this plugin brings, registered. What is heavy is imported when it is called."""

from collections.abc import Iterable
from importlib.abc import Traversable
from importlib.resources import files

from edgepack import api


def missing(target: api.Target) -> Iterable[str]:
    """Tools that a build would miss on this machine."""
    return api.missing_tools("cmake", "ninja", "objcopy", packages={"ziglang": "zig", "capstone": "capstone"})


@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    return [
        api.Spec(
            axis="builder",
            name="acme",
            summary="a folder for Linux with an installer",
            make=api.lazy("edgepack_acme.builder:create"),
            options=api.lazy("edgepack_acme.builder:OPTIONS"),
            missing=missing,
            fetch=api.lazy("edgepack_acme.builder:fetch"),
            next_step="sh {bundle}/install.sh",
        )
    ]


@api.hookimpl
def edgepack_targets() -> Iterable[Traversable]:
    return [files("edgepack_acme") / "acme.toml"]
