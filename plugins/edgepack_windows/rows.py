"""What reports say of a program for Windows: what it imports, and what it was run by."""

from collections.abc import Iterable

from edgepack.api import Bundle, Report
from edgepack_windows.imports import imports_of, is_signed


def windows_rows(bundle: Bundle, report: Report) -> Iterable[tuple[str, str]]:
    """Rows of a bundle for Windows; none for others."""
    if bundle.manifest["target"].get("platform", {}).get("os") != "windows":
        return
    ran = report.verification.texts > 0
    yield "run", "under wine, not on Windows" if ran else "nowhere: not under wine, not on Windows"
    program = bundle.program.read_bytes()
    try:
        imported, signed = imports_of(program), is_signed(program)
    except ValueError as error:
        # A stranger's: what edgepack makes is read before it is packed.
        yield "program", f"cannot be read: {error}"
        return
    for library, functions in imported.items():
        yield library, f"{len(functions)} functions: {', '.join(sorted(functions))}"
    yield "signed (Authenticode)", "yes, by the target's command" if signed else "no (docs/windows.md)"
