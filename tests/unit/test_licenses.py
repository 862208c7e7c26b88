"""Licence texts that edgepack brings along."""

import pytest

from edgepack.licenses import license_text


@pytest.mark.parametrize("name", ["MIT", "mit", "Apache-2.0", "apache-2.0", "onnxruntime", "libz", "python"])
def test_texts_by_spdx_identifier_in_either_case_and_by_component(name: str) -> None:
    text = license_text(name)
    assert text is not None
    assert text == license_text(name.upper())
    assert len(text) > 500


def test_what_is_not_known() -> None:
    assert license_text("WTFPL") is None
