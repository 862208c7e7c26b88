"""The systems that runtimes can be made for: Linux, and those of plugins, which are asked when Linux is not meant."""

from collections.abc import Iterator
from pathlib import Path

from edgepack.errors import UsageError
from edgepack.foundry.release import Release
from edgepack.foundry.releases.known import find_release
from edgepack.plugins.host import PluginHost
from edgepack.records.target import Platform
from edgepack.runtimes.platform import RuntimePlatform
from edgepack.words import did_you_mean


def platforms(host: PluginHost) -> Iterator[tuple[str, RuntimePlatform]]:
    """Each with its system's name, Linux first."""
    for name in host.registered["platform"]:
        yield name, host.platform(name)


def platform_for(platform: Platform, host: PluginHost) -> RuntimePlatform:
    """Who makes runtimes for a target's platform. Raises ``UsageError``."""
    for name, found in platforms(host):
        if name == platform.os and platform.arch in found.architectures:
            return found
    raise UsageError(f"no runtime can be built for {platform.os} on {platform.arch}", hint=_choices(host))


def platform_on(arch: str, host: PluginHost) -> tuple[Platform, RuntimePlatform]:
    """The system with such processors, and who makes runtimes for it. Raises ``UsageError``."""
    for name, found in platforms(host):
        if arch in found.architectures:
            return Platform(os=name, arch=arch), found
    every = [each for _, found in platforms(host) for each in found.architectures]
    raise UsageError(f"no runtime can be built for {arch}{did_you_mean(arch, every)}", hint=_choices(host))


def platform_of(library: Path, host: PluginHost) -> RuntimePlatform:
    """Whose runtime a file is; what nobody recognizes is taken for a shared library."""
    return next((found for _, found in platforms(host) if found.recognizes(library)), host.platform("linux"))


def release_for(version: str, arch: str, host: PluginHost) -> Release:
    """A release with the data of the system that has such processors. Raises ``UsageError``."""
    for _, found in platforms(host):
        if arch in found.architectures and version == found.release.version:
            return found.release
    return find_release(version)


def _choices(host: PluginHost) -> str:
    return ", ".join(f"{name} on {' and '.join(found.architectures)}" for name, found in platforms(host))
