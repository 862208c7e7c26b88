"""The processors that MLAS has kernels for (its platform.cpp)."""

from edgepack.foundry.feature_levels import FeatureLevel, FeatureLevels

_AVX = "sse3 pni ssse3 sse4_1 sse4_2 osxsave avx"
_AVX2 = f"{_AVX} f16c fma avx2"
_AVX512 = f"{_AVX2} avx512f avx512dq avx512bw avx512vl"


def _level(name: str, flags: str, implies: str, emulated: str | None) -> FeatureLevel:
    return FeatureLevel(
        name=name, flags=frozenset(flags.split()), implies=tuple(implies.split()), emulated=emulated
    )


LEVELS = FeatureLevels(
    levels={
        "x86_64": (
            _level("sse2", "", "", "qemu64"),
            _level("avx", _AVX, "sse2", "SandyBridge"),
            _level("avx2", _AVX2, "avx sse2", "Haswell"),
            _level("avx_vnni", f"{_AVX2} avx_vnni", "avx2 avx sse2", None),
            _level("avx_vnni_int8", f"{_AVX2} avx_vnni avx_vnni_int8", "avx_vnni avx2 avx sse2", None),
            _level("avx512", _AVX512, "avx2 avx sse2", None),
            _level("avx512_vnni", f"{_AVX512} avx512_vnni", "avx512 avx2 avx sse2", None),
            _level(
                "amx", f"{_AVX512} avx512_vnni amx_tile amx_int8", "avx512_vnni avx512 avx2 avx sse2", None
            ),
        ),
        "aarch64": (
            _level("neon", "asimd", "", "cortex-a53"),
            _level("dotprod", "asimd asimddp", "neon", "neoverse-n1"),
            _level("i8mm", "asimd asimddp i8mm", "dotprod neon", "max"),
        ),
    }
)
