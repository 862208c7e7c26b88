"""Packages of sources around a bundle's libembed: a Go module, a Rust crate. Each is a ``.tar.gz`` of one folder, which has the bundle in it as it is."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from edgepack.api import BuildContext, Bundle, Target, UsageError
from edgepack.api.axes import TarEntry, bundle_entries, write_tgz

LIBRARY = "lib/libembed.so"
HEADER = "include/embed.h"
OPENED = "opened.h"
"""What the bindings that are C share."""
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
"""As both take them."""
CRATE = re.compile(r"[a-z][a-z0-9_-]{0,63}")
MODULE = re.compile(r"[a-z0-9][a-z0-9.-]*(/[A-Za-z0-9][A-Za-z0-9._~-]*)*")
GO_MOD = """module {name}

go 1.21
"""
CARGO_TOML = """[package]
name = "{name}"
version = "{version}"
edition = "2021"
rust-version = "1.63"
description = "Text embeddings by {model}"
license-file = "bundle/LICENSES/NOTICES.txt"

[lib]
path = "lib.rs"
"""


@dataclass(frozen=True, kw_only=True)
class Language:
    """Parts of a package that are a language's own."""

    form: str
    key: str
    """Of the table ``[x-FORM]``: what the package is called."""
    example: str
    names: re.Pattern[str]
    ending: str
    """What the package's name ends with."""
    described: str
    """The file that says what the package is, and its text."""
    text: str
    named: Callable[[str], str]
    """The package's usual name, of the model's."""


GO = Language(
    form="go",
    key="module",
    example="example.com/acme/embeddings",
    names=MODULE,
    ending=".go.tgz",
    described="go.mod",
    text=GO_MOD,
    named=lambda model: f"edgepack.local/{model}",
)
RUST = Language(
    form="crate",
    key="name",
    example="acme-embeddings",
    names=CRATE,
    ending=".crate",
    described="Cargo.toml",
    text=CARGO_TOML,
    named=lambda model: model if CRATE.fullmatch(model) else f"model-{model}",
)


@dataclass(frozen=True, kw_only=True)
class SourcePackage:
    """The packager (``edgepack.api.axes.Packager``)."""

    language: Language
    version: str
    name: str = ""
    """Empty: as its model is called."""

    def file_name(self, bundle: Bundle) -> str:
        """E.g. ``all-minilm-l6-v2-1.0.0.crate``."""
        return f"{self._folder(bundle)}{self.language.ending}"

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the package; the same bundle and version give the same bytes. Raises ``UsageError``."""
        if bundle.manifest["runner"].get("library") != LIBRARY:
            raise UsageError(
                f"this bundle has no {LIBRARY}, which the package calls", hint="--set library=true"
            )
        with destination.open("wb") as out:
            write_tgz(out, self._entries(bundle))

    def _entries(self, bundle: Bundle) -> Iterator[TarEntry]:
        """Files only: who unpacks them makes folders."""
        top, model = self._folder(bundle), str(bundle.manifest["model"]["name"])
        texts = {
            self.language.described: self.language.text.format(
                name=self._name(bundle),
                version=self.version,
                model=model.replace("\\", "\\\\").replace('"', '\\"'),
            ),
            **dict(_sources(self.language.form)),
        }
        if self.language is GO:
            texts["embed.h"] = (bundle.directory / HEADER).read_text(encoding="utf-8")
            texts[OPENED] = (files("edgepack_bindings") / "csrc" / OPENED).read_text(encoding="utf-8")
        for name, text in sorted(texts.items()):
            yield TarEntry(name=f"{top}/{name}", source=text.encode())
        for entry in bundle_entries(bundle, top=f"{top}/bundle"):
            if isinstance(entry.source, Path) and (entry.source.is_symlink() or entry.source.is_file()):
                yield entry

    def _name(self, bundle: Bundle) -> str:
        model = str(bundle.manifest["model"]["name"]).rpartition("/")[2]
        plain = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-") or "model"
        return self.name or self.language.named(plain)

    def _folder(self, bundle: Bundle) -> str:
        return f"{self._name(bundle).rpartition('/')[2]}-{self.version}"


def create_go(target: Target) -> SourcePackage:
    """Raises ``UsageError`` for a target, version or name that no Go module is of."""
    return _create(GO, target)


def create_crate(target: Target) -> SourcePackage:
    """Raises ``UsageError`` for a target, version or name that no crate is of."""
    return _create(RUST, target)


def _create(language: Language, target: Target) -> SourcePackage:
    form = language.form
    if target.platform.os != "linux" or not target.options.get("library"):
        raise UsageError(
            f"package form {form} requires libembed, which this target does not build",
            hint="--set library=true, of a target for Linux with glibc",
        )
    if not VERSION.fullmatch(target.version):
        raise UsageError(
            f"{target.version!r} is not a valid version of package form {form}",
            hint='e.g. --set package.version="1.2.0"',
        )
    own: Mapping[str, object] = target.extra.get(form, {})
    name = own.get(language.key, "")
    if {*own} - {language.key} or not isinstance(name, str) or (name and not language.names.fullmatch(name)):
        raise UsageError(
            f"[x-{form}] says {dict(own)}",
            hint=f'it takes {language.key}, the package\'s name, e.g. {language.key} = "{language.example}"',
        )
    return SourcePackage(language=language, version=target.version, name=name)


def _sources(folder: str) -> Iterator[tuple[str, str]]:
    for each in (files("edgepack_bindings") / folder).iterdir():
        yield each.name, each.read_text(encoding="utf-8")
