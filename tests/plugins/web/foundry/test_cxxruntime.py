"""libc++ without wide characters: what is left out of its sources."""

import pytest
from tests.support.small_archive import request

from edgepack.errors import ToolError
from edgepack.foundry.toolchains.libcxx import needs_whole_runtime
from edgepack_web.foundry.cxxruntime import LEAN_STREAMS, narrow_locale, narrow_source

LOCALE = """\
locale::__imp::__imp(size_t refs) {
  install(&make<std::collate<char> >(1u));
  install(&make<std::ctype<char> >(nullptr, false, 1u));
#ifndef _LIBCPP_HAS_NO_WIDE_CHARACTERS
  install(&make<std::ctype<wchar_t> >(1u));
#endif
  install(&make<codecvt<char, char, mbstate_t> >(1u));
  install(&make<num_put<char> >(1u));
  install(&make<num_put<wchar_t> >(1u));
  install(&make<money_put<char> >(1u));
}
"""


def test_the_c_locale_has_characters_and_numbers() -> None:
    made = narrow_locale(LOCALE)
    assert [line.strip() for line in made.splitlines() if "install" in line] == [
        "install(&make<std::ctype<char> >(nullptr, false, 1u));",
        "install(&make<codecvt<char, char, mbstate_t> >(1u));",
        "install(&make<num_put<char> >(1u));",
    ]
    assert made.count("\n") == LOCALE.count("\n"), "lines stay where they were"


def test_headers_come_before_there_are_no_wide_characters() -> None:
    source = "#include <wchar.h>\n_LIBCPP_BEGIN_NAMESPACE_STD\nint a;\n_LIBCPP_BEGIN_NAMESPACE_STD\n"
    lines = narrow_source(source).splitlines()
    assert lines[:3] == [
        "#include <wchar.h>",
        "#define _LIBCPP_HAS_NO_WIDE_CHARACTERS",
        "_LIBCPP_BEGIN_NAMESPACE_STD",
    ]
    assert lines[3:] == ["int a;", "_LIBCPP_BEGIN_NAMESPACE_STD"]
    for patch in LEAN_STREAMS:
        with pytest.raises(ToolError, match=rf"{patch.file} is not as emscripten 3's"):
            patch.rewritten("int a;", request(), origin="emscripten 3")


@pytest.mark.parametrize("namespace", ["__1", "__2"])
def test_who_formats_money_or_wide_characters_gets_all_of_it(namespace: str) -> None:
    money = f"_ZNSt3{namespace}9money_putIcNS_19ostreambuf_iteratorIcNS_11char_traitsIcEEEEE2idE"
    wide = f"_ZNSt3{namespace}13basic_ostreamIwNS_11char_traitsIwEEE5flushEv"
    number = f"_ZNSt3{namespace}7num_putIcNS_19ostreambuf_iteratorIcNS_11char_traitsIcEEEEE2idE"
    assert needs_whole_runtime([number, wide, money]) == sorted([money, wide])
