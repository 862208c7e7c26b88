"""CPU feature levels: what they imply, which of them a processor is, and what it has to hide to be a lower one."""

from pathlib import Path

import pytest

from edgepack.errors import UsageError
from edgepack.foundry.feature_levels import processor_flags
from edgepack.foundry.releases.ort_1_21.levels import LEVELS


def test_what_is_implied() -> None:
    assert LEVELS.check(["avx512"], "x86_64") == ("avx", "avx2", "avx512", "sse2")
    assert LEVELS.check([], "aarch64") == ()


@pytest.mark.parametrize(
    ("isa", "floor"),
    [
        ([], None),
        (["avx512_vnni"], "avx512_vnni"),
        (["avx2", "avx512_vnni"], "avx2"),
        (["avx_vnni", "avx512"], "avx2"),
        (["sse2", "amx"], "sse2"),
    ],
)
def test_what_every_device_must_have(isa: list[str], floor: str | None) -> None:
    assert LEVELS.floor(isa, "x86_64") == floor


def test_processors_below_the_floor_need_not_be_proved() -> None:
    assert LEVELS.kept([], "x86_64") == ()
    assert LEVELS.kept(["avx2", "avx512_vnni"], "x86_64") == ("avx2", "avx512", "avx512_vnni")
    assert LEVELS.kept(["sse2", "avx2"], "x86_64") == ("avx", "avx2", "sse2")
    assert LEVELS.kept(["i8mm"], "aarch64") == ("i8mm",)


def test_what_a_device_is_asked_for() -> None:
    assert LEVELS.required_flags(["sse2", "avx512"], "x86_64") == ()
    assert {"avx2", "fma", "pni"} <= set(LEVELS.required_flags(["avx2", "amx"], "x86_64"))
    assert LEVELS.required_flags(["i8mm"], "aarch64") == ("asimddp", "i8mm")


def test_what_is_not_known() -> None:
    with pytest.raises(UsageError, match="mmx") as caught:
        LEVELS.check(["mmx"], "x86_64")
    assert "avx512_vnni" in str(caught.value.hint)
    with pytest.raises(UsageError, match="avx2 on aarch64"):
        LEVELS.check(["avx2"], "aarch64")


def test_levels_of_processors() -> None:
    avx2 = ["sse2", "pni", "ssse3", "sse4_1", "sse4_2", "avx", "f16c", "fma", "avx2"]
    avx512 = [*avx2, "avx512f", "avx512dq", "avx512bw", "avx512vl"]
    assert LEVELS.of_processor("x86_64", ["sse2", "pni"]).name == "sse2"
    assert LEVELS.of_processor("x86_64", avx2).name == "avx2"
    assert LEVELS.of_processor("x86_64", [*avx2, "avx_vnni"]).name == "avx_vnni"
    assert LEVELS.of_processor("x86_64", avx512).name == "avx512"
    assert LEVELS.of_processor("x86_64", [*avx512, "avx512_vnni"]).name == "avx512_vnni"
    assert LEVELS.of_processor("aarch64", ["asimd", "asimddp"]).name == "dotprod"


def test_levels_that_an_emulator_stands_in_for() -> None:
    """The proof of a library runs on an emulated processor of a level where it knows one, each level on its own."""
    for arch, without in (
        ("x86_64", {"avx_vnni", "avx_vnni_int8", "avx512", "avx512_vnni", "amx"}),
        ("aarch64", set()),
    ):
        emulated = {level.name: level.emulated for level in LEVELS.on(arch)}
        assert {name for name, processor in emulated.items() if processor is None} == without
        known = [processor for processor in emulated.values() if processor]
        assert len(set(known)) == len(known)


def test_what_a_processor_hides() -> None:
    levels = {level.name: level.hidden_bits() for level in LEVELS.on("x86_64")}
    leaf1, leaf7, *_ = levels["avx"]
    assert not leaf1 >> 28 & 1 and leaf1 >> 12 & 1, "shows AVX, hides FMA"
    assert leaf7 >> 5 & 1 and leaf7 >> 16 & 1, "hides AVX2 and AVX-512"
    assert not levels["avx512"][1] >> 16 & 1 and levels["avx512"][2] >> 11 & 1, (
        "shows AVX-512, hides its VNNI"
    )

    arm = {level.name: level.hidden_hwcaps() for level in LEVELS.on("aarch64")}
    assert arm == {"neon": (1 << 20, 1 << 13), "dotprod": (0, 1 << 13), "i8mm": (0, 0)}


def test_flags_of_a_processor(tmp_path: Path) -> None:
    (tmp_path / "x86").write_text(
        "processor\t: 0\nflags\t\t: fpu sse2 avx\n\nprocessor\t: 1\nflags\t\t: fpu\n"
    )
    (tmp_path / "arm").write_text("processor\t: 0\nFeatures\t: fp asimd asimddp\n")
    assert processor_flags(tmp_path / "x86") == {"fpu", "sse2", "avx"}
    assert processor_flags(tmp_path / "arm") == {"fp", "asimd", "asimddp"}
    assert processor_flags(tmp_path / "none") == frozenset()
