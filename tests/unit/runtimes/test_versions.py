"""What is known of releases, and what of it is on this machine."""

from io import StringIO

import pytest
from rich.console import Console

from edgepack.foundry.compile import compiled
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.sources.pinned import store_path
from edgepack.models.ort.releases import FILES, stock_release
from edgepack.plugins.context import HostContext
from edgepack.reports.releases import render_releases
from edgepack.runtimes.versions import AT_HAND, PINNED, KnownRelease, known_releases


def release(version: str, context: HostContext) -> KnownRelease:
    return next(each for each in known_releases(context) if each.version == version)


def test_in_an_empty_cache_nothing_is_at_hand(context: HostContext) -> None:
    found = known_releases(context)
    assert [each.version for each in found if each.default] == [RELEASE.version]
    assert {state for each in found for state in each.wheels.values()} == {PINNED}
    assert {each.sources for each in found} == {"", PINNED}
    assert not any(each.compiled for each in found)
    assert context.store.kinds() == []


def test_a_wheel_that_was_fetched_is_at_hand(context: HostContext) -> None:
    wheel = stock_release("1.31.1").wheels["aarch64"]
    inputs = {"wheel": wheel.requirement, "sha256": wheel.sha256, "keep": " ".join(FILES)}
    context.store.cached("wheels", inputs, lambda folder: (folder / "x").touch())
    assert release("1.31.1", context).wheels == {"x86_64": PINNED, "aarch64": AT_HAND}
    assert release("1.30.0", context).wheels["aarch64"] == PINNED


@pytest.mark.tools("zig")
def test_sources_are_at_hand_when_all_of_them_are(context: HostContext) -> None:
    *others, last = RELEASE.catalogue.parts.values()
    for part in others:
        file = store_path(part.archives[0], context)
        file.parent.mkdir(parents=True)
        file.touch()
    assert release(RELEASE.version, context).sources == PINNED
    file = store_path(last.archives[0], context)
    file.parent.mkdir(parents=True)
    file.touch()
    assert release(RELEASE.version, context).sources == AT_HAND


def test_the_table(context: HostContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "sources_at_hand", lambda *_, **__: None)
    console = Console(width=200, record=True, file=StringIO())
    console.print(render_releases(known_releases(context)))
    rows = {line.split()[0]: line for line in console.export_text().splitlines() if line.strip()}
    assert f"{RELEASE.version} (default)" in rows[RELEASE.version]
    assert "Attention, RMSNormalization, RotaryEmbedding and 2 more" in rows["1.23.2"]
    assert "none known" in rows["1.31.1"]
