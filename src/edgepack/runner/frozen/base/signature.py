"""Whether a bundle is signed, whole: the arithmetic is that of the native program, in a library of its own."""

from __future__ import annotations

import ctypes
import os
import stat

from .bundle import COPY_AGAIN, Bundle
from .errors import BundleError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SIGNATURE = "signature.sigstore.json"
MOST = 16 << 20
"""Bytes that a signature's file may have."""
MOST_OF_KEY = 1 << 16
LIBRARY = "lib/libsignature.so"
MESSAGE = 1024


def read_key(path: str) -> str:
    """The text of a key's file. Raises ``UsageError``."""
    try:
        with open(path, "rb") as stream:
            content = stream.read(MOST_OF_KEY + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > MOST_OF_KEY or b"\0" in content:
        raise UsageError(f"{path} is no public key of the curve P-256 in PEM")
    return content.decode("latin-1")


def check_signature(bundle: Bundle, key: str) -> None:
    """Raise ``BundleError`` unless everything in the bundle's folder is what was signed with this key (PEM)."""
    check = load(os.path.join(bundle.directory, LIBRARY))
    content = read_signature(bundle.directory)
    message = ctypes.create_string_buffer(MESSAGE)
    code = check(
        content, len(content), key.encode("latin-1"), bundle.manifest_digest.encode(), message, MESSAGE
    )
    said = message.value.decode("utf-8", "replace")
    if code == UsageError.exit_code:
        raise UsageError(said)
    if code:
        raise BundleError(said, "do not use it: fetch it again from whom you trust")
    # The manifest is what was signed, and so is what it lists.
    bundle.check_contents()
    check_strangers(bundle)


def read_signature(directory: str) -> bytes:
    path = os.path.join(directory, SIGNATURE)
    try:
        if stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "rb") as stream:
                content = stream.read(MOST + 1)
            if len(content) <= MOST:
                return content
    except OSError:
        pass
    raise BundleError(
        f"the bundle is not signed as it has to be: there is no {SIGNATURE}",
        "do not use it: fetch it again from whom you trust",
    )


def load(path: str) -> Any:
    """Raises ``UsageError`` where there is none: only what was built to check signatures has it."""
    try:
        check = ctypes.CDLL(path).signature_check
    except (OSError, AttributeError) as error:
        raise UsageError(
            "this program cannot check signatures: it was built without",
            "--set signatures=true builds one that can",
        ) from error
    text, size = ctypes.c_char_p, ctypes.c_size_t
    check.argtypes = [text, size, text, text, ctypes.c_void_p, size]
    return check


def check_strangers(bundle: Bundle) -> None:
    """Nothing lies in the folder but what is listed, the manifest and the signature; nobody else may write it."""
    known = {"manifest.json": stat.S_IFREG, SIGNATURE: stat.S_IFREG}
    for entry in bundle.value("files"):
        path = entry["path"]
        known[path] = stat.S_IFLNK if entry.get("mode") == "link" else stat.S_IFREG
        while path := path.rpartition("/")[0]:
            known[path] = stat.S_IFDIR
    walk(bundle.directory, "", known)


def walk(directory: str, below: str, known: dict[str, int]) -> None:
    """Raises ``BundleError``."""
    try:
        found = sorted(os.listdir(os.path.join(directory, below)))
    except OSError as error:
        raise BundleError(f"cannot read {directory}/{below}: {error.strerror}", COPY_AGAIN) from error
    for name in found:
        path = below + name
        mode = os.lstat(os.path.join(directory, path)).st_mode
        if stat.S_IFMT(mode) != known.get(path):
            raise BundleError(f"{path} is not in the manifest, or not as what it is", COPY_AGAIN)
        forbidden = stat.S_IWOTH | (0 if stat.S_ISDIR(mode) else stat.S_ISUID | stat.S_ISGID)
        if not stat.S_ISLNK(mode) and mode & forbidden:
            raise BundleError(
                f"{path} has a mode with which anyone may change it, or it runs with another's rights",
                COPY_AGAIN,
            )
        if stat.S_ISDIR(mode):
            walk(directory, path + "/", known)
