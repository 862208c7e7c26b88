"""Java's classes, compiled where they are packed."""

from importlib.resources import files
from pathlib import Path

from edgepack.api import BuildContext, MissingToolError

JAVAC = ("-encoding", "UTF-8", "-source", "8", "-target", "8", "-Xlint:-options", "-g:none")
"""Bytecode that every version of Java and of Android's tools takes."""


def compiled(*folders: str, form: str, context: BuildContext) -> dict[str, bytes | Path]:
    """Name in a jar → file of each class of these folders of sources. Raises ``MissingToolError``, ``ToolError``."""
    work = context.work_dir / f"{form}-classes"
    (work / "made").mkdir(parents=True, exist_ok=True)
    sources = []
    for each in sorted(
        (each for folder in folders for each in (files("edgepack_bindings") / folder).iterdir()),
        key=lambda each: each.name,
    ):
        sources.append(work / each.name)
        sources[-1].write_bytes(each.read_bytes())
    try:
        # Without a class path it would be the current folder, and javac runs processors that it finds there.
        here = ["-proc:none", "-cp", str(work / "made"), "-d", str(work / "made")]
        context.run(["javac", *JAVAC, *here, *sources])
    except MissingToolError as error:
        raise MissingToolError(
            f"package form {form} requires javac",
            hint="a JDK from 8 to 25 has it: apt install default-jdk-headless",
        ) from error
    made = work / "made"
    return {path.relative_to(made).as_posix(): path for path in sorted(made.rglob("*.class"))}
