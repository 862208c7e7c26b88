"""libc++ is cut down only where nothing needs more of it."""

import importlib.util
from pathlib import Path

import pytest

from edgepack.errors import MissingToolError
from edgepack.foundry.toolchains.libcxx import needs_whole_runtime, small_locale
from edgepack.foundry.toolchains.zig import zig_program

SOURCE = """\
locale::__imp::__imp(size_t refs) : facet(refs), facets_(N), name_("C") {
  install(&make<std::collate<char> >(1u));
  install(&make<std::ctype<char> >(nullptr, false, 1u));
  install(&make<codecvt<char, char, mbstate_t> >(1u));
  install(&make<codecvt<char16_t, char, mbstate_t> >(1u));
  install(&make<numpunct<char> >(1u));
  install(&make<num_put<char> >(1u));
  install(&make<moneypunct<char, false> >(1u));
  install(&make<time_put<char> >(1u));
  install(&make<std::messages<char> >(1u));
}
"""


def test_facets_for_characters_and_numbers_stay() -> None:
    text = small_locale(SOURCE)
    for kept in ("std::ctype<char>", "codecvt<char, char, mbstate_t>", "numpunct<char>", "num_put<char>"):
        assert kept in text
    for gone in ("collate", "char16_t", "moneypunct", "time_put", "messages"):
        assert gone not in text
    assert text.count("\n") == SOURCE.count("\n")


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")
def test_zig_s_own_source_is_of_this_form() -> None:
    try:
        source = (zig_program().parent / "lib/libcxx/src/locale.cpp").read_text()
    except MissingToolError:
        pytest.skip("zig is not installed")
    text = small_locale(source)
    assert source.count("install(&make<") - text.count("install(&make<") >= 15
    assert "install(&make<num_put<char> >(1u));" in text


@pytest.mark.parametrize(
    "symbol",
    [
        "_ZNSt3__18time_putIcNS_19ostreambuf_iteratorIcNS_11char_traitsIcEEEEE2idE",
        "_ZNSt3__17collateIcE2idE",
        "_ZNSt3__17codecvtIDsc11__mbstate_tE2idE",
        "_ZNSt3__112basic_stringIwNS_11char_traitsIwEENS_9allocatorIwEEE6resizeEmw",
        "_ZNSt3__15ctypeIwE2idE",
        "_ZNSt3__113basic_ostreamIwNS_11char_traitsIwEEElsEi",
    ],
)
def test_what_needs_the_whole_runtime(symbol: str) -> None:
    assert needs_whole_runtime([symbol]) == [symbol]


@pytest.mark.parametrize(
    "symbol",
    [
        "_ZNSt3__15ctypeIcE2idE",
        "_ZNSt3__18numpunctIcE2idE",
        "_ZNSt3__17codecvtIcc11__mbstate_tE2idE",
        "_ZNSt3__113basic_ostreamIcNS_11char_traitsIcEEElsEi",
        "_ZNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEE6resizeEmc",
        "_ZN11onnxruntime8messagesEv",
        "malloc",
    ],
)
def test_what_the_small_runtime_serves(symbol: str) -> None:
    assert needs_whole_runtime([symbol]) == []


def test_the_folder_of_zig_is_found() -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed")
    assert (Path(zig_program()).parent / "lib/libcxxabi/src").is_dir()
