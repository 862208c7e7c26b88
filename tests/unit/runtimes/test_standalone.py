"""What a library is made for, by target or by options, and what several models' proofs come to."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgepack.errors import BundleError, TargetError, UsageError
from edgepack.foundry.platform import RuntimeOptions
from edgepack.foundry.platforms import find_platform, platform_on
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.recipes.registry import passes_for, passes_of
from edgepack.records.runtime import LevelProof
from edgepack.records.target import Platform
from edgepack.runtimes.find import platform_of
from edgepack.runtimes.linux import LINUX_X86_64
from edgepack.runtimes.standalone import (
    OPERATORS_FILE,
    LibraryOptions,
    library_options,
    make_library,
    operators_beside,
    prove_again,
    worst_by_level,
)


def test_without_a_target() -> None:
    host = load_plugins()
    assert library_options(None, recipe=None, kind=None, glibc=None, host=host) == LibraryOptions()
    named = library_options(None, recipe="fp32", kind="full", glibc="2.31", host=host)
    assert (named.recipe, named.runtime.kind, named.runtime.glibc) == ("fp32", "full", "2.31")


def test_a_target_s_platform_recipe_and_kind() -> None:
    host = load_plugins()
    options = library_options("linux-arm64-min", recipe=None, kind=None, glibc=None, host=host)
    assert options.runtime.platform == Platform(os="linux", arch="aarch64", glibc="2.28")
    assert (options.recipe, options.runtime.kind) == ("int8-download", "minimal")
    assert (
        library_options("linux-arm64-min", recipe="fp32", kind=None, glibc=None, host=host).recipe == "fp32"
    )


def test_models_with_scores_get_the_target_s_recipe_for_them(context: HostContext) -> None:
    """Else the library has other operators than the bundle's model."""
    ranks: Any = SimpleNamespace(ranks=True)
    host = load_plugins()
    target = host.target("linux-x86-min", ()).model
    own = library_options("linux-x86-min", recipe=None, kind=None, glibc=None, host=host).model
    assert passes_for(ranks, own, context) == passes_of("int8-near", context)
    assert (own.recipe, own.score_recipe, own.format) == (target.recipe, target.score_recipe, target.format)
    named = library_options("linux-x86-min", recipe="int8", kind=None, glibc=None, host=host).model
    assert passes_for(ranks, named, context) == passes_of("int8", context)


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
            platform=LINUX_X86_64,
            levels="here",
            context=context,
        )


def test_two_models_that_would_be_one_file_are_refused(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one's file was the second's, which was proved."""

    def prepared(source: Any, **how: object) -> Any:
        return SimpleNamespace(source=source, precision="int8", file=Path("model.ort"))

    def found(name: str, *, context: HostContext) -> Any:
        return SimpleNamespace(name=name)

    monkeypatch.setattr("edgepack.runtimes.standalone.ingest", found)
    monkeypatch.setattr("edgepack.runtimes.standalone.prepare_model", prepared)
    platform = find_platform(LibraryOptions().runtime.platform, load_plugins().extensions("platform"))
    with pytest.raises(UsageError, match=r"two models would be written as e5-int8\.ort"):
        make_library(
            ("a/e5", "b/e5"),
            options=LibraryOptions(),
            platform=platform,
            output=tmp_path / "out",
            context=context,
        )
    assert not (tmp_path / "out").exists()


def test_runtimes_for_linux_always_have_threads(tmp_path: Path, context: HostContext) -> None:
    options = library_options(None, recipe=None, kind=None, glibc=None, threads=True, host=load_plugins())
    with pytest.raises(UsageError, match="runtimes for linux have threads"):
        make_library([None], options=options, platform=LINUX_X86_64, output=tmp_path / "out", context=context)


def test_who_makes_runtimes_for_a_platform(tmp_path: Path) -> None:
    known = load_plugins().extensions("platform")
    assert find_platform(Platform(os="linux", arch="aarch64"), known).architectures == ("aarch64",)
    assert find_platform(Platform(os="linux", arch="aarch64", libc="glibc"), known).libc == "glibc"
    device, found = platform_on("x86_64", known)
    assert (device, found.architectures) == (Platform(os="linux", arch="x86_64"), ("x86_64",))
    assert platform_of(tmp_path / "nothing", known).architectures == ("x86_64",)
    (tmp_path / "arm64.so").write_bytes(b"\x7fELF" + bytes(14) + (183).to_bytes(2, "little"))
    assert platform_of(tmp_path / "arm64.so", known).architectures == ("aarch64",)


@pytest.mark.parametrize(
    ("device", "said"),
    [
        (Platform(os="linux", arch="s390x"), "linux on s390x, only for linux on x86_64, aarch64"),
        (Platform(os="linux", arch="aarch65"), "linux on aarch65 (did you mean aarch64?), only for "),
        (
            Platform(os="linux", arch="riscv64", libc="musl"),
            "linux on riscv64 with musl, only for linux on x86",
        ),
        (Platform(os="freebsd", arch="x86_64"), "freebsd on x86_64, only for linux on x86_64"),
    ],
)
def test_devices_that_nobody_makes_runtimes_for(device: Platform, said: str) -> None:
    known = load_plugins().extensions("platform")
    with pytest.raises(UsageError) as caught:
        find_platform(device, known)
    assert caught.value.message.startswith(f"no runtime can be made for {said}")
    assert "web on wasm32" in caught.value.message
    with pytest.raises(UsageError, match=r"no runtime can be made for aarch32 \(did you mean aarch64\?\)"):
        platform_on("aarch32", known)


def test_a_c_library_from_before_the_processor() -> None:
    with pytest.raises(UsageError, match=r"for glibc 2\.5 on x86_64, which 2\.17 is the first for") as caught:
        LINUX_X86_64.check(RuntimeOptions(platform=Platform(os="linux", arch="x86_64", glibc="2.5")))
    assert '--set platform.glibc="2.17"' in str(caught.value.hint)
    LINUX_X86_64.check(RuntimeOptions(platform=Platform(os="linux", arch="x86_64", glibc="2.17")))


@pytest.mark.parametrize(("content", "size"), [(b"\xff", 1), (b"", 2 << 20)], ids=["no text", "large"])
def test_a_list_of_operators_that_is_none_is_said(tmp_path: Path, content: bytes, size: int) -> None:
    """It was read whole: one of holes took all memory."""
    (tmp_path / OPERATORS_FILE).write_bytes(content)
    os.truncate(tmp_path / OPERATORS_FILE, size)
    with pytest.raises(BundleError, match="cannot be read"):
        operators_beside(tmp_path / "lib.so")
