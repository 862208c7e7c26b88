"""Names of what is pushed and pulled: ``REGISTRY/NAME:TAG``, ``REGISTRY/NAME@sha256:…``, or a folder, ``oci:FOLDER:TAG``."""

import re
from dataclasses import dataclass, replace

from edgepack.api import UsageError

TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
LATEST = "latest"
LAYOUT = "oci:"
DOCKER_HUB, DOCKER_HUB_HOST = "docker.io", "registry-1.docker.io"
_HOST = re.compile(
    r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9-]+(?=:\d))(?::\d+)?"
)
_NAME = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
EXAMPLE = "e.g. registry.example/team/embed:1.0"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One name of a registry's, or of an OCI layout's where ``registry`` is empty: then ``name`` is the folder."""

    registry: str
    """Host and port as the user wrote it."""
    name: str
    tag: str = LATEST
    digest: str = ""
    """``sha256:…``, which goes before the tag; empty: whatever the tag names."""

    def __str__(self) -> str:
        place = f"{self.registry}/{self.name}" if self.registry else f"{LAYOUT}{self.name}"
        return f"{place}@{self.digest}" if self.digest else f"{place}:{self.tag}"

    @property
    def host(self) -> str:
        """Whom to connect to."""
        return DOCKER_HUB_HOST if self.registry == DOCKER_HUB else self.registry

    @property
    def wanted(self) -> str:
        """Name that a registry is asked for: the digest, or the tag."""
        return self.digest or self.tag

    def at(self, digest: str) -> "Reference":
        """The same name, pinned."""
        return replace(self, digest=digest)

    def tagged(self, tag: str) -> "Reference":
        """The same name under another tag. Raises ``UsageError`` for one that is too long."""
        return replace(self, tag=_checked(tag, TAG, f"{tag!r} is not a valid tag"))


def parse_reference(text: str) -> Reference:
    """Raises ``UsageError``, saying which part of it is wrong."""
    if text.startswith(LAYOUT):
        return _layout(text)
    place, _, digest = text.partition("@")
    registry, slash, path = place.partition("/")
    if not slash or not _HOST.fullmatch(registry):
        raise UsageError(
            f"{text!r} does not begin with a registry",
            hint=f"{EXAMPLE}; docker.io/you/embed:1.0 for Docker Hub",
        )
    name, colon, tag = path.partition(":")
    if registry == DOCKER_HUB and "/" not in name:
        name = f"library/{name}"
    _checked(name, _NAME, f"{name!r} is not a valid name of a repository: small letters, digits and . _ - /")
    if colon:
        _checked(tag, TAG, f"{tag!r} is not a valid tag")
    if digest or "@" in text:
        _checked(digest, DIGEST, f"{digest!r} is not a digest: sha256: and 64 hexadecimal digits")
    return Reference(registry=registry, name=name, tag=tag or LATEST, digest=digest)


def _layout(text: str) -> Reference:
    place, _, digest = text.removeprefix(LAYOUT).partition("@")
    folder, colon, tag = place.rpartition(":")
    if not colon or "/" in tag:
        folder, tag = place, LATEST
    if not folder:
        raise UsageError(f"{text!r} names no folder", hint="e.g. oci:layout:1.0")
    _checked(tag, TAG, f"{tag!r} is not a valid tag")
    if digest:
        _checked(digest, DIGEST, f"{digest!r} is not a digest: sha256: and 64 hexadecimal digits")
    return Reference(registry="", name=folder, tag=tag, digest=digest)


def _checked(word: str, pattern: re.Pattern[str], problem: str) -> str:
    if not pattern.fullmatch(word):
        raise UsageError(problem, hint=EXAMPLE)
    return word
