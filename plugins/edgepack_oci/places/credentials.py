"""Credentials for registries, where docker, podman and the others keep them: files of ``docker login``, and credential helpers."""

import base64
import binascii
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgepack.api import BuildContext, EdgepackError, UsageError
from edgepack.files.owners import is_ours
from edgepack_oci.content.reference import DOCKER_HUB

HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", DOCKER_HUB)
"""What docker calls its own registry in its file."""
REFRESH = "<token>"
"""The user name under which helpers give a token that is exchanged for others."""


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Credentials of one registry. Never shown, never written."""

    user: str = ""
    secret: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    """To be exchanged for tokens, in the place of user and password."""
    source: str
    """Where they are from, in words."""

    @property
    def basic(self) -> str:
        """The value of an ``Authorization`` header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()


def find_credentials(registry: str, name: str, *, context: BuildContext) -> Credentials | None:
    """Credentials of the first file that knows the registry; None: anonymous. Raises ``UsageError`` for a file that cannot be read."""
    for file in _files():
        found = _in_file(file, registry, name, context)
        if found is not None:
            return found
    return None


def _files() -> Iterator[Path]:
    """In the order in which podman and skopeo look; a file that the environment names is the only one."""
    if named := os.environ.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
        return
    home = Path.home()
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or home)
    # After su it is another user's.
    if runtime != home and is_ours(file := runtime / "containers/auth.json", below=runtime):
        yield file
    yield Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "containers/auth.json"
    yield Path(os.environ.get("DOCKER_CONFIG") or home / ".docker") / "config.json"


def _in_file(file: Path, registry: str, name: str, context: BuildContext) -> Credentials | None:
    said = _read(file)
    keys = (
        HUB_KEYS
        if registry == DOCKER_HUB
        else (registry, f"https://{registry}", f"https://{registry}/v1/", f"https://{registry}/v2/")
    )
    helpers = said.get("credHelpers")
    helper = next((helpers[key] for key in keys if key in helpers), "") if isinstance(helpers, dict) else ""
    if helper:
        return _of_helper(str(helper), keys[0], context)
    auths = said.get("auths")
    known = auths if isinstance(auths, dict) else {}
    # podman may keep an account for part of a registry: the longest name goes first.
    parts = name.split("/")
    longer = (f"{registry}/{'/'.join(parts[:count])}" for count in range(len(parts), 0, -1))
    for key in (*longer, *keys):
        if isinstance(entry := known.get(key), dict) and (found := _of_entry(entry, file)):
            return found
    store = said.get("credsStore")
    return _of_helper(str(store), keys[0], context) if store else None


def _read(file: Path) -> Mapping[str, Any]:
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{file} cannot be read: {error}", hint="log in again: docker login, or podman login"
        ) from error
    return said if isinstance(said, dict) else {}


def _of_entry(entry: Mapping[str, Any], file: Path) -> Credentials | None:
    if token := entry.get("identitytoken"):
        return Credentials(refresh_token=str(token), source=str(file))
    try:
        user, _, secret = base64.b64decode(str(entry.get("auth", ""))).decode().partition(":")
    except (binascii.Error, ValueError) as error:
        raise UsageError(
            f"{file}: an auth in it is damaged", hint="log in again: docker login, or podman login"
        ) from error
    return Credentials(user=user, secret=secret.rstrip("\0"), source=str(file)) if secret else None


def _of_helper(helper: str, server: str, context: BuildContext) -> Credentials | None:
    """Credentials from ``docker-credential-HELPER get``; one that knows nothing of the registry is as good as none."""
    if not re.fullmatch(r"[\w.-]+", helper):
        raise UsageError(f"{helper!r} names no credential helper", hint="docker-credential-NAME is one")
    program = f"docker-credential-{helper}"
    try:
        said = json.loads(context.run([program, "get"], input=server))
        user, secret = str(said["Username"]), str(said["Secret"])
    except (EdgepackError, ValueError, KeyError, TypeError) as error:
        context.note(
            f"{program} has no credentials for {server}: {str(error).splitlines()[0] if str(error) else 'no answer'}"
        )
        return None
    if user == REFRESH:
        return Credentials(refresh_token=secret, source=program)
    return Credentials(user=user, secret=secret, source=program)
