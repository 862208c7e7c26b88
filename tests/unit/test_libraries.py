"""What a library is made for, by target or by options, and what several models' proofs come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgepack.errors import BundleError, TargetError, UsageError
from edgepack.libraries import LibraryOptions, fit, library_options, prove_again, worst_by_level
from edgepack.plugins.context import HostContext
from edgepack.records.runtime import LevelProof
from edgepack.records.target import Platform


def test_without_a_target() -> None:
    assert library_options(None, recipe=None, kind=None, glibc=None) == LibraryOptions()
    named = library_options(None, recipe="fp32", kind="full", glibc="2.31")
    assert (named.recipe, named.kind, named.platform.glibc) == ("fp32", "full", "2.31")


def test_a_target_s_platform_recipe_and_kind() -> None:
    options = library_options("linux-arm64-min", recipe=None, kind=None, glibc=None)
    assert options.platform == Platform(os="linux", arch="aarch64", glibc="2.28")
    assert (options.recipe, options.kind) == ("int8", "minimal")
    assert library_options("linux-arm64-min", recipe="fp32", kind=None, glibc=None).recipe == "fp32"


def test_no_such_target() -> None:
    with pytest.raises(TargetError, match="linux-arm64-mini"):
        library_options("linux-arm64-mini", recipe=None, kind=None, glibc=None)


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
        prove_again(tmp_path / "lib.so", tmp_path / "model.ort", levels="here", context=context)


def test_a_target_for_browsers() -> None:
    options = library_options("web-wasm", recipe=None, kind=None, glibc=None, threads=True)
    assert (options.platform.arch, options.kind, options.threads) == ("wasm32", "minimal", True)


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        (None, {"threads": True}, "for browsers"),
        ("web-wasm", {"kind": "full"}, "is minimal"),
        ("web-wasm", {"glibc": "2.28"}, "no C library"),
    ],
)
def test_what_browsers_have_and_others_have_not(
    target: str | None, options: dict[str, object], said: str
) -> None:
    asked: dict[str, object] = {"recipe": None, "kind": None, "glibc": None, **options}
    with pytest.raises(UsageError, match=said):
        library_options(target, **asked)  # type: ignore[arg-type]


def test_a_module_is_proved_with_its_script_and_fits_by_its_operators(
    context: HostContext, tmp_path: Path
) -> None:
    module, model = tmp_path / "ort.wasm", tmp_path / "model.ort"
    module.write_bytes(b"\0asm\1\0\0\0")
    model.write_bytes(b"ORTM")
    with pytest.raises(BundleError, match=r"should lie its JavaScript, ort\.mjs"):
        prove_again(module, model, levels="here", context=context)
    with pytest.raises(BundleError, match=r"no required_operators_and_types\.config lies beside it"):
        fit(module, model, context=context)
