"""The bundle that the program belongs to, read from its manifest."""

from __future__ import annotations

import json
import os

from .errors import BundleError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SCHEMA = 1
COPY_AGAIN = "copy the whole bundle folder again, or unpack its archive again"


class Bundle:
    """What the manifest says. Raises ``BundleError`` for what is missing, of another size, or of a newer schema."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.manifest, self.manifest_digest = read_manifest(directory)
        try:
            self.model = self.file("model", "file")
            # Where the GPU's form of the model is one that the processor cannot run.
            self.cpu_model = (
                self.file("model", "cpu_file") if "cpu_file" in self.value("model") else self.model
            )
            self.tokenizer = self.file("model", "tokenizer")
            self.library = self.file("runtime", "library")
            self.dimension = int(self.value("model", "dimension"))
            self.max_length = int(self.value("model", "max_length"))
            self.check_at_start = (self.manifest.get("runner") or {}).get("check") == "start"
            self.batch_dependent = bool(self.value("model", "batch_dependent"))
            self.normalized = bool(self.value("model", "normalize"))
            # What only rerankers and classifiers have.
            self.task: str | None = self.value("model").get("task")
            self.head = self.file("model", "head") if self.task else None
            # What only models of other outputs than one vector a text have.
            self.outputs: dict[str, Any] | None = self.value("model").get("outputs")
            # What older bundles do not say.
            self.prefixes: dict[str, str] = dict(self.manifest["model"].get("prefixes") or {})
            self.matryoshka: dict[str, Any] | None = self.manifest["model"].get("matryoshka")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BundleError(f"manifest.json is damaged: {error}", COPY_AGAIN) from error

    @property
    def data(self) -> tuple[str | None, ...]:
        """The files that vectors and scores are computed from."""
        return self.model, self.cpu_model, self.tokenizer, self.head

    def value(self, *keys: str) -> Any:
        """A value of the manifest, e.g. ``value("model", "dimension")``."""
        found: Any = self.manifest
        for key in keys:
            if not isinstance(found, dict) or key not in found:
                raise BundleError(f"manifest.json lacks {'.'.join(keys)}", COPY_AGAIN)
            found = found[key]
        return found

    def file(self, *keys: str) -> str:
        """The absolute path of a file that the manifest names, found to be there and of the right size."""
        path = str(self.value(*keys))
        for entry in self.value("files"):
            if entry.get("path") == path:
                return self.check_size(entry)
        raise BundleError(f"manifest.json names {path} as {'.'.join(keys)} but does not list it", COPY_AGAIN)

    def check_size(self, entry: dict[str, Any]) -> str:
        """The absolute path of a listed file; raises ``BundleError`` when it is missing or cut short."""
        path = os.path.join(self.directory, entry["path"])
        try:
            size = os.stat(path).st_size
        except OSError as error:
            raise BundleError(
                f"{entry['path']} is missing from the bundle: {error.strerror}", COPY_AGAIN
            ) from error
        if size != entry["size"]:
            raise BundleError(
                f"{entry['path']} is damaged: {size} bytes instead of {entry['size']}", COPY_AGAIN
            )
        return path

    def check_contents(self) -> int:
        """Read every listed file and compare its SHA-256; the number of files."""
        files = self.value("files")
        for entry in files:
            self.check_content(entry)
        return len(files)

    def check_data(self) -> None:
        """The same for the models and the tokenizer alone."""
        for entry in self.value("files"):
            if os.path.join(self.directory, entry["path"]) in self.data:
                self.check_content(entry)

    def check_content(self, entry: dict[str, Any]) -> None:
        """Raises ``BundleError`` for a listed file whose content, or for a link whose target, is another."""
        path = os.path.join(self.directory, entry["path"])
        if entry.get("mode") == "link":
            right = (
                os.path.islink(path)
                # What it leads to is looked at where it is listed itself: elsewhere nobody does.
                and os.path.realpath(path).startswith(os.path.join(os.path.realpath(self.directory), ""))
                and os.path.exists(path)
                and sha256_type()(os.fsencode(os.readlink(path))).hexdigest() == entry["sha256"]
            )
            why = "it is not the link that was packed"
        else:
            right = sha256_of(self.check_size(entry)) == entry["sha256"]
            why = "its content does not match its SHA-256"
        if not right:
            raise BundleError(f"{entry['path']} is damaged: {why}", COPY_AGAIN)


def read_manifest(directory: str) -> tuple[dict[str, Any], str]:
    """manifest.json of a bundle folder, and its SHA-256."""
    path = os.path.join(directory, "manifest.json")
    try:
        with open(path, "rb") as stream:
            content = stream.read()
        manifest = json.loads(content)
    except OSError as error:
        raise BundleError(
            f"cannot read {path}: {error.strerror}", "the program must stay in the folder of its bundle"
        ) from error
    except ValueError as error:
        raise BundleError(f"{path} is damaged: {error}", COPY_AGAIN) from error
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        schema = manifest.get("schema") if isinstance(manifest, dict) else None
        raise BundleError(
            f"{path} has schema {schema}; this program reads schema {SCHEMA}",
            "use the program that came with the bundle",
        )
    return manifest, str(sha256_type()(content).hexdigest())


def sha256_type() -> Any:
    """What makes digests, to be kept by whoever makes many: an import that fails is tried again each time."""
    try:  # hashlib would bring in OpenSSL, and digests that nobody asks for
        from _sha2 import sha256 as new  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from _sha256 import sha256 as new  # type: ignore[import-not-found,unused-ignore]  # before Python 3.12
    return new


def sha256_of(path: str) -> str:
    """SHA-256 of a file, hexadecimal."""
    digest = sha256_type()()
    try:
        with open(path, "rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error.strerror}", COPY_AGAIN) from error
    return str(digest.hexdigest())
