"""A bundle for apps of Android: an AAR with Java's classes, libembed for one processor, and the bundle among the assets."""

import os
import re
import zipfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import IO

from edgepack.api import BuildContext, Bundle, MissingToolError, Target, UsageError
from edgepack.api.axes import bundle_entries
from edgepack_bindings.package import LIBRARY

ABIS = {"aarch64": "arm64-v8a", "x86_64": "x86_64"}
"""Android's names of the processors for which a libembed needs no C library."""
OLDEST = 26
"""The first API that has java.nio.file."""
PACKAGE = re.compile(r"[a-z]\w*(\.[a-z]\w*)+", re.ASCII)
MANIFEST = """<?xml version="1.0" encoding="utf-8"?>
<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="{package}">
    <uses-sdk android:minSdkVersion="{oldest}" />
</manifest>
"""
RULES = """-keepclasseswithmembers class edgepack.Bundle { native <methods>; }
-keep class edgepack.EmbedException { <init>(int, byte[]); }
"""
"""What an app's shrinker has to keep: the library finds them by name."""
JAVAC = ("-encoding", "UTF-8", "-source", "8", "-target", "8", "-Xlint:-options", "-g:none")
"""Bytecode that every version of Android's tools takes."""
DATE = (1980, 1, 1, 0, 0, 0)

Members = dict[str, bytes | Path]


@dataclass(frozen=True, kw_only=True)
class AndroidArchive:
    """The packager (``edgepack.api.axes.Packager``)."""

    package: str

    def file_name(self, bundle: Bundle) -> str:
        """E.g. ``all-MiniLM-L6-v2-linux-arm64-fast.aar``."""
        return f"{bundle.name}.aar"

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the archive; the same bundle and javac give the same bytes. Raises ``UsageError``, ``MissingToolError``, ``ToolError``."""
        if bundle.manifest["runner"].get("library") != LIBRARY:
            raise UsageError(f"this bundle has no {LIBRARY}, which apps call", hint="--set library=true")
        work = context.work_dir / "aar"
        work.mkdir(exist_ok=True)
        abi = ABIS[bundle.manifest["target"]["platform"]["arch"]]
        members: Members = {
            "AndroidManifest.xml": MANIFEST.format(package=self.package, oldest=OLDEST).encode(),
            "R.txt": b"",
            "classes.jar": _classes(work, context=context),
            f"jni/{abi}/{Path(LIBRARY).name}": bundle.directory / LIBRARY,
            "proguard.txt": RULES.encode(),
        }
        for entry in bundle_entries(bundle, top=f"assets/{bundle.name}"):
            if isinstance(entry.source, Path) and entry.source.is_file():
                members[entry.name] = entry.source
        with destination.open("wb") as out:
            _write_zip(out, members)


def create_aar(target: Target) -> AndroidArchive:
    """Raises ``UsageError`` for a target whose libembed no Android loads, or a name that is none of a package."""
    platform = target.platform
    engine = target.builder == "engine" and platform.os == "linux" and platform.libc != "musl"
    if not engine or platform.arch not in ABIS or not target.options.get("library"):
        raise UsageError(
            "package form aar requires a libembed that needs no C library, which this target does not build",
            hint="--target linux-arm64-fast --set library=true, or linux-x86-fast for the emulator",
        )
    own = dict(target.extra.get("aar", {}))
    package = own.pop("package", "edgepack.bundle")
    if own or not isinstance(package, str) or not PACKAGE.fullmatch(package):
        raise UsageError(
            f"[x-aar] says {dict(target.extra['aar'])}",
            hint='it takes package, the namespace of the archive, e.g. package = "com.acme.embeddings"',
        )
    return AndroidArchive(package=package)


def _classes(work: Path, *, context: BuildContext) -> Path:
    """A jar of Java's classes."""
    folder, jar = work / "classes", work / "classes.jar"
    sources = []
    for each in sorted((files("edgepack_bindings") / "java").iterdir(), key=lambda each: each.name):
        sources.append(work / each.name)
        sources[-1].write_bytes(each.read_bytes())
    try:
        context.run(["javac", *JAVAC, "-d", folder, *sources])
    except MissingToolError as error:
        raise MissingToolError(
            "package form aar requires javac",
            hint="a JDK from 8 to 25 has it: apt install default-jdk-headless",
        ) from error
    with jar.open("wb") as out:
        _write_zip(
            out, {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.class"))}
        )
    return jar


def _write_zip(out: IO[bytes], members: Members) -> None:
    """The same members give the same bytes on any day."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, DATE)
            executable = isinstance(content, Path) and os.access(content, os.X_OK)
            info.compress_type, info.external_attr = (
                zipfile.ZIP_DEFLATED,
                (0o755 if executable else 0o644) << 16,
            )
            archive.writestr(info, content if isinstance(content, bytes) else content.read_bytes())
