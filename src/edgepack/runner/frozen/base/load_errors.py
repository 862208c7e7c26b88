"""Why a library does not load on this system, in a sentence instead of the loader's own words."""

import os
import re

TRY_SELF_TEST = "run --self-test to find the damaged file of the bundle"
MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
"""``e_machine`` of little-endian ELF files (ELF specification, chapter 4)."""


def why_not_loaded(path: str, said: str) -> tuple[str, str]:
    """Message and hint for a library of which the loader, or ONNX Runtime, ``said`` this."""
    name = os.path.basename(path)
    machine, here = machine_of(path), os.uname().machine
    if machine not in (None, here):
        return f"{name} is for {machine}, this system is {here}", "use a bundle that was made for this system"
    newer = re.search(r"version [`']GLIBC_([\d.]+)' not found", said)
    if newer:
        return (
            f"{name} needs glibc {newer[1]} or newer, this system has {libc_version()}",
            "use a bundle for an older glibc: its target says which (platform.glibc)",
        )
    return f"the model does not load: {said}", TRY_SELF_TEST


def machine_of(path: str) -> str | None:
    """The processor that an ELF file is for; None for what is none, or cannot be read."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(20)
    except OSError:
        return None
    if not head.startswith(b"\x7fELF") or len(head) < 20:
        return None
    return MACHINES.get(int.from_bytes(head[18:20], "little"), "another processor")


def libc_version() -> str:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "another").removeprefix("glibc ")
    except (OSError, ValueError):
        return "another"
