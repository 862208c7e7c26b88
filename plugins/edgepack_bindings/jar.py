"""A bundle for programs in Java: a jar with classes, libembed for its platform, and the bundle among the resources."""

import re
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from edgepack.api import BuildContext, Bundle, Target, UsageError
from edgepack.bundles.packages import name_of_model, require_version, text_of_form
from edgepack_bindings.classes import compiled
from edgepack_bindings.naming import LIBRARY, VERSION, require_library
from edgepack_bindings.zips import Members, members_of, write_zip

FORM = "jar"
NAME = re.compile(r"[A-Za-z0-9_.-]+:[a-z0-9][a-z0-9_.-]*")
"""Group and artifact, as Maven has them; the artifact is the bundle's name for Java, too."""
GROUP = "edgepack.local"
RESOURCES = "META-INF/edgepack"
"""Where bundles lie in jars: Packed.java reads it."""
MANIFEST = """Manifest-Version: 1.0\r
Created-By: edgepack\r
Implementation-Title: {artifact}\r
Implementation-Version: {version}\r
\r
"""
POM = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{artifact}</artifactId>
  <version>{version}</version>
  <description>Text embeddings by {model}</description>
</project>
"""


@dataclass(frozen=True, kw_only=True)
class Jar:
    """The packager (``edgepack.api.axes.Packager``)."""

    version: str
    name: str = ""
    """Group and artifact; empty: as its model is called."""

    def file_name(self, bundle: Bundle) -> str:
        """E.g. ``all-minilm-l6-v2-1.0.0.jar``, as Maven calls it."""
        return f"{self._names(bundle)[1]}-{self.version}.jar"

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the jar; the same bundle, version and javac give the same bytes. Raises ``UsageError``, ``MissingToolError``, ``ToolError``."""
        require_library(bundle)
        group, artifact = self._names(bundle)
        named = {
            "group": group,
            "artifact": artifact,
            "version": self.version,
            "model": escape(str(bundle.manifest["model"]["name"])),
        }
        top = f"{RESOURCES}/{artifact}"
        inside = dict(members_of(bundle, form=FORM, top=top))
        members: Members = {
            # Java's own tools look for it at the beginning.
            "META-INF/MANIFEST.MF": MANIFEST.format(**named).encode(),
            f"META-INF/maven/{group}/{artifact}/pom.xml": POM.format(**named).encode(),
            **compiled("java", "packed", form=FORM, context=context),
            library_in(bundle): bundle.directory / LIBRARY,
            # No class can list what a jar holds.
            f"{top}.txt": "".join(f"{name.removeprefix(top)[1:]}\n" for name in inside).encode(),
            **inside,
        }
        with destination.open("wb") as out:
            write_zip(out, members)

    def _names(self, bundle: Bundle) -> tuple[str, str]:
        group, _, artifact = (self.name or f"{GROUP}:{name_of_model(bundle)}").partition(":")
        return group, artifact


def library_in(bundle: Bundle) -> str:
    """Name in the jar of the bundle's library."""
    platform = bundle.manifest["target"]["platform"]
    return f"META-INF/native/{platform['os']}-{platform['arch']}/{Path(LIBRARY).name}"


def create_jar(target: Target) -> Jar:
    """Raises ``UsageError`` for a target whose libembed has no JNI, or a version or name that no jar is of."""
    if target.builder != "engine" or target.platform.os != "linux" or not target.options.get("library"):
        raise UsageError(
            f"package form {FORM} requires a libembed of the engine's, which this target does not build",
            hint="--target linux-x86-fast --set library=true",
        )
    require_version(target, VERSION, f"package form {FORM}")
    hint = 'name, the package\'s name, e.g. name = "com.acme:embeddings"'
    return Jar(version=target.version, name=text_of_form(target, FORM, "name", NAME, hint=hint))
