"""Packages of sources around a bundle's libembed, with the bundle in them as it is: a module of Go's proxies, a Rust crate."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from edgepack.api import BuildContext, Bundle, Target, UsageError
from edgepack.api.axes import TarEntry, bundle_entries, write_tgz
from edgepack.bundles.packages import name_of_model, require_version, text_of_form
from edgepack_bindings.naming import VERSION, require_library
from edgepack_bindings.zips import members_of, write_zip

HEADER = "include/embed.h"
OPENED = "opened.h"
"""What the bindings that are C share."""
CRATE = re.compile(r"[a-z][a-z0-9_-]{0,63}")
MODULE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9][A-Za-z0-9._~-]*)*")
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
"""


@dataclass(frozen=True, kw_only=True)
class Language:
    """Parts of a package that are a language's own."""

    form: str
    key: str
    """Of the table ``[x-FORM]``: what the package is called."""
    example: str
    names: re.Pattern[str]
    described: str
    """The file that says what the package is, and its text."""
    text: str
    code: str
    """The folder of its sources in the package."""
    named: Callable[[str], str]
    """The package's usual name, of the model's."""


GO = Language(
    form="go",
    key="module",
    example="example.com/acme/embeddings",
    names=MODULE,
    described="go.mod",
    text=GO_MOD,
    code="",
    named=lambda model: f"edgepack.local/{model}",
)
RUST = Language(
    form="crate",
    key="name",
    example="acme-embeddings",
    names=CRATE,
    described="Cargo.toml",
    text=CARGO_TOML,
    code="src/",
    named=lambda model: model if CRATE.fullmatch(model) else f"model-{model}",
)


@dataclass(frozen=True, kw_only=True)
class Crate:
    """The packager (``edgepack.api.axes.Packager``) of the form that cargo's registries have: a ``.tar.gz`` of one folder."""

    version: str
    name: str = ""
    """Empty: as its model is called."""

    def file_name(self, bundle: Bundle) -> str:
        """E.g. ``all-minilm-l6-v2-1.0.0.crate``."""
        return f"{self._folder(bundle)}.crate"

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the crate; the same bundle and version give the same bytes. Raises ``UsageError``."""
        require_library(bundle)
        top = self._folder(bundle)
        texts = _texts(RUST, bundle, name=self._name(bundle), version=self.version)
        entries = [TarEntry(name=f"{top}/{name}", source=text.encode()) for name, text in texts.items()]
        for entry in bundle_entries(bundle, top=f"{top}/bundle"):
            # Files only: who unpacks them makes folders.
            if isinstance(entry.source, Path) and (entry.source.is_symlink() or entry.source.is_file()):
                entries.append(entry)
        with destination.open("wb") as out:
            write_tgz(out, entries)

    def _name(self, bundle: Bundle) -> str:
        return self.name or RUST.named(name_of_model(bundle))

    def _folder(self, bundle: Bundle) -> str:
        return f"{self._name(bundle)}-{self.version}"


@dataclass(frozen=True, kw_only=True)
class GoModule:
    """The packager (``edgepack.api.axes.Packager``) of the form that Go's proxies have: a zip of ``MODULE@vVERSION``."""

    version: str
    name: str = ""
    """Empty: as its model is called."""

    def file_name(self, bundle: Bundle) -> str:
        """E.g. ``all-minilm-l6-v2@v1.0.0.zip``."""
        return f"{self._name(bundle).removesuffix(self._major()).rpartition('/')[2]}@v{self.version}.zip"

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the module; the same bundle and version give the same bytes. Raises ``UsageError``."""
        require_library(bundle)
        name = self._name(bundle)
        top = f"{name}@v{self.version}"
        texts = _texts(GO, bundle, name=name, version=self.version)
        texts |= {
            "embed.h": (bundle.directory / HEADER).read_text(encoding="utf-8"),
            OPENED: (files("edgepack_bindings") / "csrc" / OPENED).read_text(encoding="utf-8"),
        }
        members = {f"{top}/{name}": text.encode() for name, text in sorted(texts.items())}
        with destination.open("wb") as out:
            write_zip(out, {**members, **dict(members_of(bundle, form=GO.form, top=f"{top}/bundle"))})

    def _name(self, bundle: Bundle) -> str:
        name = self.name or GO.named(name_of_model(bundle))
        return name.removesuffix(self._major()) + self._major()

    def _major(self) -> str:
        """The end of a module's path that Go wants from version 2 on."""
        major = self.version.partition(".")[0]
        return "" if major in ("0", "1") else f"/v{major}"


def create_go(target: Target) -> GoModule:
    """Raises ``UsageError`` for a target, version or name that no Go module is of."""
    return GoModule(version=target.version, name=_name(GO, target))


def create_crate(target: Target) -> Crate:
    """Raises ``UsageError`` for a target, version or name that no crate is of."""
    return Crate(version=target.version, name=_name(RUST, target))


def _name(language: Language, target: Target) -> str:
    form = language.form
    if target.platform.os != "linux" or not target.options.get("library"):
        raise UsageError(
            f"package form {form} requires libembed, which this target does not build",
            hint="--set library=true, of a target for Linux with glibc",
        )
    require_version(target, VERSION, f"package form {form}")
    hint = f'{language.key}, the package\'s name, e.g. {language.key} = "{language.example}"'
    return text_of_form(target, form, language.key, language.names, hint=hint)


def _texts(language: Language, bundle: Bundle, *, name: str, version: str) -> dict[str, str]:
    model = str(bundle.manifest["model"]["name"]).replace("\\", "\\\\").replace('"', '\\"')
    texts = {language.described: language.text.format(name=name, version=version, model=model)}
    for each in sorted((files("edgepack_bindings") / language.form).iterdir(), key=lambda each: each.name):
        texts[language.code + each.name] = each.read_text(encoding="utf-8")
    return texts
