"""A bundle for apps of Android: an AAR with Java's classes, libembed for one processor, and the bundle among the assets."""

import re
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import BuildContext, Bundle, Target, UsageError
from edgepack.bundles.packages import text_of_form
from edgepack_bindings.classes import compiled
from edgepack_bindings.naming import LIBRARY, require_library
from edgepack_bindings.zips import Members, members_of, write_zip

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


@dataclass(frozen=True, kw_only=True)
class AndroidArchive:
    """The packager (``edgepack.api.axes.Packager``)."""

    package: str

    def file_name(self, bundle: Bundle) -> str:
        """E.g. ``all-MiniLM-L6-v2-linux-arm64-fast.aar``."""
        return f"{bundle.name}.aar"

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the archive; the same bundle and javac give the same bytes. Raises ``UsageError``, ``MissingToolError``, ``ToolError``."""
        require_library(bundle)
        jar = context.work_dir / "classes.jar"
        with jar.open("wb") as out:
            write_zip(out, compiled("java", form="aar", context=context))
        members: Members = {
            "AndroidManifest.xml": MANIFEST.format(package=self.package, oldest=OLDEST).encode(),
            "R.txt": b"",
            "classes.jar": jar,
            library_in(bundle): bundle.directory / LIBRARY,
            "proguard.txt": RULES.encode(),
            **dict(members_of(bundle, form="aar", top=f"assets/{bundle.name}")),
        }
        with destination.open("wb") as out:
            write_zip(out, members)


def library_in(bundle: Bundle) -> str:
    """Name in the archive of the bundle's library."""
    arch = bundle.manifest["target"]["platform"]["arch"]
    return f"jni/{ABIS.get(arch, arch)}/{Path(LIBRARY).name}"


def create_aar(target: Target) -> AndroidArchive:
    """Raises ``UsageError`` for a target whose libembed no Android loads, or a name that is none of a package."""
    platform = target.platform
    engine = target.builder == "engine" and platform.os == "linux" and platform.libc != "musl"
    if not engine or platform.arch not in ABIS or not target.options.get("library"):
        raise UsageError(
            "package form aar requires a libembed that needs no C library, which this target does not build",
            hint="--target linux-arm64-fast --set library=true, or linux-x86-fast for the emulator",
        )
    hint = 'package, the namespace of the archive, e.g. package = "com.acme.embeddings"'
    named = text_of_form(target, "aar", "package", PACKAGE, default="edgepack.bundle", hint=hint)
    return AndroidArchive(package=named)
