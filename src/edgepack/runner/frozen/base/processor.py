"""Whether this device's processor has what the bundle's runtime was made for: asked before the library is loaded."""

from .bundle import Bundle
from .errors import RuntimeFailure

CPUINFO = "/proc/cpuinfo"


def require_processor(bundle: Bundle) -> None:
    """Raises ``RuntimeFailure`` for a processor that lacks an instruction set; the library would abort on it.

    Where Linux does not say what the processor has, the library is tried.
    """
    wanted = set(bundle.value("runtime").get("requires", ()))
    lacking = sorted(wanted - has) if wanted and (has := processor_flags()) else []
    if lacking:
        raise RuntimeFailure(
            f"this device's processor lacks {', '.join(lacking)}, which the bundle's runtime requires",
            "build a bundle without platform.isa, or with the features of this CPU",
        )


def processor_flags() -> frozenset[str]:
    """The flags of the first processor that /proc/cpuinfo describes; none where it cannot be read."""
    try:
        with open(CPUINFO, encoding="ascii", errors="replace") as stream:
            for line in stream:
                name, _, words = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    return frozenset(words.split())
    except OSError:
        pass
    return frozenset()
