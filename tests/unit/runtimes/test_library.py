"""What a library is made for, by target or by options, and what several models' proofs come to."""

from pathlib import Path

import pytest

from edgepack.errors import TargetError, UsageError
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.runtime import LevelProof
from edgepack.records.target import Platform
from edgepack.runtimes.known import platform_for, platform_of, platform_on
from edgepack.runtimes.library import (
    LibraryOptions,
    library_options,
    make_library,
    prove_again,
    worst_by_level,
)
from edgepack.runtimes.linux import LinuxPlatform


def test_without_a_target() -> None:
    host = load_plugins()
    assert library_options(None, recipe=None, kind=None, glibc=None, host=host) == LibraryOptions()
    named = library_options(None, recipe="fp32", kind="full", glibc="2.31", host=host)
    assert (named.recipe, named.runtime.kind, named.runtime.glibc) == ("fp32", "full", "2.31")


def test_a_target_s_platform_recipe_and_kind() -> None:
    host = load_plugins()
    options = library_options("linux-arm64-min", recipe=None, kind=None, glibc=None, host=host)
    assert options.runtime.platform == Platform(os="linux", arch="aarch64", glibc="2.28")
    assert (options.recipe, options.runtime.kind) == ("int8", "minimal")
    assert (
        library_options("linux-arm64-min", recipe="fp32", kind=None, glibc=None, host=host).recipe == "fp32"
    )


def test_no_such_target() -> None:
    with pytest.raises(TargetError, match="linux-arm64-mini"):
        library_options("linux-arm64-mini", recipe=None, kind=None, glibc=None, host=load_plugins())


def test_of_several_models_the_furthest_counts() -> None:
    def proofs(*cosines: float) -> list[LevelProof]:
        levels = ("neon", "dotprod")
        return [
            LevelProof(level=level, proved=True, min_cosine=cosine)
            for level, cosine in zip(levels, cosines, strict=True)
        ]

    assert [proof.min_cosine for proof in worst_by_level([proofs(1.0, 0.9), proofs(0.95, 1.0)])] == [
        0.95,
        0.9,
    ]


def test_files_that_are_not_there(tmp_path: Path, context: HostContext) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        prove_again(
            tmp_path / "lib.so",
            tmp_path / "model.ort",
            platform=LinuxPlatform(),
            levels="here",
            context=context,
        )


def test_runtimes_for_linux_always_have_threads(tmp_path: Path, context: HostContext) -> None:
    options = library_options(None, recipe=None, kind=None, glibc=None, threads=True, host=load_plugins())
    with pytest.raises(UsageError, match="runtimes for linux have threads"):
        make_library(
            [None], options=options, platform=LinuxPlatform(), output=tmp_path / "out", context=context
        )


def test_who_makes_runtimes_for_a_platform(tmp_path: Path) -> None:
    host = load_plugins()
    assert platform_for(Platform(os="linux", arch="aarch64"), host).form == LinuxPlatform().form
    device, found = platform_on("x86_64", host)
    assert (device, found.form) == (Platform(os="linux", arch="x86_64"), LinuxPlatform().form)
    assert platform_of(tmp_path / "nothing", host).form == LinuxPlatform().form
    with pytest.raises(UsageError, match="no runtime can be built for linux on s390x") as caught:
        platform_for(Platform(os="linux", arch="s390x"), host)
    assert "linux on x86_64 and aarch64" in str(caught.value.hint)
    with pytest.raises(UsageError, match=r"no runtime can be built for aarch32 \(did you mean aarch64\?\)"):
        platform_on("aarch32", host)
