"""What is fetched for a release, so that builds can be offline."""

from pathlib import Path

import pytest

from edgepack.foundry.releases import registry as known
from edgepack.plugins.context import HostContext


def test_the_compiler_that_configuring_needs_is_fetched_with_the_sources(
    context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(known, "protoc", lambda tool, *, context: asked.append(tool))
    monkeypatch.setattr(known, "fetch_parts", lambda catalogue, *, context: {"onnxruntime": Path("x")})
    assert list(known.fetch_sources(context=context)) == ["onnxruntime"]
    assert asked == [known.RELEASE.catalogue.protoc]
