"""Emulators: the system's own first, else Debian's, unpacked into the store."""

import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgepack.errors import MissingToolError
from edgepack.foundry.processor import Processor, Sysroot
from edgepack.foundry.processors.aarch64 import AARCH64
from edgepack.foundry.proof import emulator as module
from edgepack.foundry.proof.emulator import find_emulator, find_qemu
from edgepack.foundry.sources.pinned import read_archive, store_path
from edgepack.plugins.context import HostContext

pytestmark = pytest.mark.tools()

QEMU = b"#!/bin/sh\necho 'qemu-aarch64 version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)'\n"


def deb(path: Path, files: Mapping[str, bytes]) -> str:
    """A Debian package with these files; its SHA-256."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size, member.mode = len(data), 0o755
            tar.addfile(member, io.BytesIO(data))
    parts = {"debian-binary": b"2.0\n", "control.tar.xz": b"", "data.tar.xz": content.getvalue()}
    with path.open("wb") as stream:
        stream.write(b"!<arch>\n")
        for name, data in parts.items():
            stream.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode())
            stream.write(data + b"\n" * (len(data) % 2))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An x86-64 machine without any qemu or cross libraries; the folder of its programs."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(module, "SYSTEM_LIBC", str(tmp_path / "usr" / "{triple}"))
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    found = module.tools.is_installed  # type: ignore[attr-defined]
    here = {f"qemu-{arch}{kind}" for arch in ("aarch64", "x86_64") for kind in ("", "-static")}
    monkeypatch.setattr(
        module.tools,  # type: ignore[attr-defined]
        "is_installed",
        lambda name: (programs / name).exists() if name in here else found(name),
    )
    return programs


def install(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(QEMU)
    file.chmod(0o755)


def in_store(tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch) -> Processor:
    """As after `edgepack fetch`: packages of the test's own making, pinned and in the store."""
    files = {"usr/bin/qemu-aarch64": QEMU, "usr/bin/qemu-sparc": b"not asked for"}
    table: dict[str, Any] = {"file": "qemu-user_10_amd64.deb"}
    table["sha256"] = deb(tmp_path / table["file"], files)
    libc: dict[str, Any] = {"file": "libc6_2_arm64.deb"}
    libc["sha256"] = deb(
        tmp_path / libc["file"], {"usr/cross/lib/ld-linux-aarch64.so.1": b"loader", "usr/share/doc/x": b""}
    )
    for entry in (table, libc):
        stored = store_path(read_archive(entry), context)
        stored.parent.mkdir(parents=True)
        stored.write_bytes((tmp_path / entry["file"]).read_bytes())
    catalogue = {"qemu": {"arch": "x86_64", "packages": [table]}}
    monkeypatch.setattr(module, "_catalogue", lambda: catalogue)
    return replace(AARCH64, sysroot=Sysroot(packages=(read_archive(libc),), root="usr/cross"))


def test_what_is_installed_is_taken(bare_machine: Path, tmp_path: Path, context: HostContext) -> None:
    install(bare_machine / "qemu-aarch64-static")
    install(tmp_path / "usr" / "aarch64-linux-gnu" / "lib" / "ld-linux-aarch64.so.1")
    found = find_qemu(AARCH64, context=context)
    assert found.program == bare_machine / "qemu-aarch64-static"
    assert found.version == "10.0.13"
    assert found.command("max")[1:] == ["-cpu", "max", "-L", tmp_path / "usr" / "aarch64-linux-gnu"]


def test_a_processor_of_the_machine_s_own_kind_has_its_c_library(
    bare_machine: Path, context: HostContext
) -> None:
    install(bare_machine / "qemu-x86_64")
    assert find_emulator("x86_64", context=context).command("Haswell")[1:] == ["-cpu", "Haswell"]


def test_debian_s_is_unpacked_into_the_store(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = in_store(tmp_path, context, monkeypatch)
    found = find_qemu(processor, context=context)
    assert found.program.read_bytes() == QEMU and found.program.is_relative_to(context.store.root)
    assert not (found.program.parent / "qemu-sparc").exists()
    assert found.libc is not None and (found.libc / "lib/ld-linux-aarch64.so.1").is_file()
    assert not (found.libc.parent / "share").exists()


def test_a_processor_that_qemu_has_not(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = in_store(tmp_path, context, monkeypatch)
    with pytest.raises(MissingToolError, match="qemu-abacus is not installed, and qemu has none"):
        find_qemu(replace(processor, qemu="abacus"), context=context)


def test_a_c_library_that_nobody_pinned(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = replace(in_store(tmp_path, context, monkeypatch), sysroot=None)
    with pytest.raises(MissingToolError, match="there is no C library for aarch64 at ") as caught:
        find_qemu(processor, context=context)
    assert caught.value.hint == "apt-get install libc6-arm64-cross"


def test_offline_and_not_in_the_store(context: HostContext) -> None:
    with pytest.raises(MissingToolError, match=r"no emulator for aarch64: .*qemu-user.*--offline") as caught:
        find_emulator("aarch64", context=context)
    assert "qemu-user-static" in str(caught.value.hint)


def test_a_processor_that_nothing_emulates(context: HostContext) -> None:
    with pytest.raises(MissingToolError, match="no emulator is known for m68k"):
        find_emulator("m68k", context=context)


def test_what_is_fetched_is_pinned() -> None:
    packages = [read_archive(each) for each in module._catalogue()["qemu"]["packages"]]
    assert AARCH64.sysroot is not None
    packages += AARCH64.sysroot.packages
    assert all(len(package.sha256) == 64 and package.debian for package in packages)
