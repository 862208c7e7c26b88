"""A project's bundles are made where something changed, and one that fails stops no other."""

import json
import shutil
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.plugins.test_delegates import BOX
from tests.support.berts import write_bert
from tests.support.kiosk import TARGET, install, prepare_site

from edgepack import python_api
from edgepack.bundles.manifest import open_bundle
from edgepack.bundles.place import held_place
from edgepack.console import Story
from edgepack.errors import EdgepackError
from edgepack.files.store import Store, digest_tree
from edgepack.plugins.context import HostContext
from edgepack.project.state_file import REMEMBERED, signing
from edgepack.signing.keys import load_private, load_public, new_keys
from edgepack.signing.signatures import is_signed_file, sign_bundle, sign_path

pytestmark = pytest.mark.tools("env", "python")

PROJECT = """
[[bundle]]
model = "one"
targets = ["kiosk-one"]
[[bundle]]
model = "none"
targets = ["kiosk-one"]
[[bundle]]
model = "two"
targets = ["kiosk-one"]
"""


@pytest.fixture
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """Runs `edgepack build` in a project of three models, one of which is not there."""
    install(prepare_site(tmp_path / "site", monkeypatch), monkeypatch)
    monkeypatch.setenv("EDGEPACK_CACHE", str(tmp_path / "cache"))
    write_bert(tmp_path / "one")
    write_bert(tmp_path / "two")
    (tmp_path / "edgepack.toml").write_text(PROJECT)

    def run(*, dry_run: bool = False, force: bool = False) -> dict[str, str]:
        made = python_api.build(tmp_path / "edgepack.toml", offline=True, dry_run=dry_run, force=force)
        assert all((each.error is not None) == (each.state == "failed") for each in made)
        return {each.label.partition(":")[0]: each.state for each in made}

    return run


@pytest.mark.slow
def test_what_changed_is_made_and_nothing_else(states: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    project, one = tmp_path / "edgepack.toml", tmp_path / "dist" / "one-kiosk-one"
    assert states(dry_run=True) == {"one": "to be made", "none": "failed", "two": "to be made"}
    assert not one.exists()
    assert states() == {"one": "made", "none": "failed", "two": "made"}
    assert states() == {"one": "up to date", "none": "failed", "two": "up to date"}
    project.write_text(
        PROJECT.replace('model = "one"', 'model = "one"\nsettings = { "model.min_agreement" = 0.5 }')
    )
    assert states(dry_run=True) == {"one": "to be made", "none": "failed", "two": "up to date"}
    project.write_text(PROJECT)
    (one / "boot.bin").write_bytes(b"damaged!")
    assert states() == {"one": "made", "none": "failed", "two": "up to date"}
    assert (one / "boot.bin").read_bytes() == b"firmware"
    (tmp_path / "dist" / "two-kiosk-one.tar.zst").unlink()
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    (tmp_path / "one" / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-5}))
    assert states() == {"one": "made", "none": "failed", "two": "made"}
    (tmp_path / "dist" / REMEMBERED).write_text('{"one-kiosk-one": 1}')
    assert set(states(dry_run=True).values()) == {"to be made", "failed"}
    assert states(force=True)["two"] == "made"


def test_a_signed_bundle_that_no_build_of_a_project_has_made_is_not_replaced(
    states: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    """A release of `edgepack bundle` was gone, with its archive and signatures. What is not signed can be made again."""
    (tmp_path / "edgepack.toml").write_text('[[bundle]]\nmodel = "one"\ntargets = ["kiosk-one"]\n')
    private, _ = new_keys(tmp_path / "team", password=None)
    bundle = tmp_path / "dist/one-kiosk-one"
    python_api.bundle(tmp_path / "one", target="kiosk-one", output=tmp_path / "dist", offline=True)
    assert states(dry_run=True) == {"one": "to be made"}
    python_api.sign(bundle, key=private)
    release = digest_tree(tmp_path / "dist")
    assert states() == states(dry_run=True) == {"one": "failed"}
    (result,) = python_api.build(tmp_path / "edgepack.toml", offline=True)
    assert "is signed, and no build of a project has made it, so it is not replaced" in str(result.error)
    assert digest_tree(tmp_path / "dist") == release
    assert states(force=True) == {"one": "made"}
    python_api.sign(bundle, key=private)
    assert states() == {"one": "up to date"}
    (bundle / "boot.bin").write_bytes(b"damaged!")
    assert states() == {"one": "made"}
    # What is remembered and signed is made again, whatever is left of it.
    python_api.sign(bundle, key=private)
    shutil.rmtree(bundle)
    assert states() == {"one": "made"}


def test_a_signed_archive_that_was_laid_over_the_own_one_of_a_project_is_not_replaced(
    states: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    """A release was downloaded into `dist`: the next build made the bundle again, and removed its signature."""
    (tmp_path / "edgepack.toml").write_text('[[bundle]]\nmodel = "one"\ntargets = ["kiosk-one"]\n')
    private, _ = new_keys(tmp_path / "team", password=None)
    dist, release = tmp_path / "dist", tmp_path / "release"
    archive = "one-kiosk-one.tar.zst"
    assert states() == {"one": "made"}
    shutil.copytree(dist, release)
    python_api.sign(release / "one-kiosk-one", key=private)
    for name in (archive, f"{archive}.sigstore.json"):
        shutil.copy(release / name, dist / name)
    before = digest_tree(dist)
    assert states() == {"one": "failed"} and digest_tree(dist) == before
    assert states(force=True) == {"one": "made"}


def test_a_whole_signed_release_laid_over_the_same_bundle_of_a_project_is_not_replaced(
    states: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    """The signatures of a key that is elsewhere were taken for what a kill had left: they were gone at the next build."""
    (tmp_path / "edgepack.toml").write_text('[[bundle]]\nmodel = "one"\ntargets = ["kiosk-one"]\n')
    (private, _), (team, _) = (new_keys(tmp_path / name, password=None) for name in ("other", "team"))
    dist, release = tmp_path / "dist", tmp_path / "release"
    assert states() == {"one": "made"}
    shutil.copytree(dist, release)
    python_api.sign(release / "one-kiosk-one", key=private)
    # With its archive, and the folder alone, whose signature another key's would replace.
    for names in (sorted(path.name for path in release.iterdir()), ["one-kiosk-one"]):
        for name in names:
            if (release / name).is_dir():
                shutil.copytree(release / name, dist / name, dirs_exist_ok=True)
            elif name != REMEMBERED:
                shutil.copy(release / name, dist / name)
        before = digest_tree(dist)
        (made,) = python_api.build(tmp_path / "edgepack.toml", offline=True, key=team)
        assert made.state == "failed" and digest_tree(dist) == before
        if len(names) > 1:
            assert states() == {"one": "failed"} and digest_tree(dist) == before
        assert states(force=True) == {"one": "made"}


def test_what_a_kill_in_the_middle_of_signing_leaves_is_made_again(
    states: Callable[..., dict[str, str]], tmp_path: Path, context: HostContext
) -> None:
    (tmp_path / "edgepack.toml").write_text('[[bundle]]\nmodel = "one"\ntargets = ["kiosk-one"]\n')
    private, _ = new_keys(tmp_path / "team", password=None)
    bundle = tmp_path / "dist/one-kiosk-one"
    assert states() == {"one": "made"}
    with suppress(KeyboardInterrupt), signing(bundle, context=context):
        sign_path(bundle, load_private(private, password=None), context=context)
        raise KeyboardInterrupt
    assert states() == {"one": "made"} and not (bundle / "signature.sigstore.json").exists()
    python_api.sign(bundle, key=private)
    bundle.with_name(f"{bundle.name}.tar.zst").write_bytes(b"damaged!")
    assert states() == {"one": "made"}


def test_a_signing_that_was_killed_before_it_signed_is_forgotten(
    states: Callable[..., dict[str, str]], tmp_path: Path, context: HostContext
) -> None:
    """A signed release that was laid over the bundle days later was taken for what the kill had left."""
    (tmp_path / "edgepack.toml").write_text('[[bundle]]\nmodel = "one"\ntargets = ["kiosk-one"]\n')
    private, _ = new_keys(tmp_path / "other", password=None)
    bundle = tmp_path / "dist/one-kiosk-one"
    assert states() == {"one": "made"}
    context = replace(context, store=Store(root=tmp_path / "cache"))
    with suppress(KeyboardInterrupt), signing(bundle, context=context):
        raise KeyboardInterrupt
    assert states() == {"one": "up to date"}
    sign_path(bundle, load_private(private, password=None), context=context)
    before = digest_tree(tmp_path / "dist")
    assert states() == {"one": "failed"} and digest_tree(tmp_path / "dist") == before


def test_signing_that_is_refused_leaves_the_memory_as_it_was(
    states: Callable[..., dict[str, str]], tmp_path: Path, context: HostContext
) -> None:
    (tmp_path / "edgepack.toml").write_text('[[bundle]]\nmodel = "one"\ntargets = ["kiosk-one"]\n')
    assert states() == {"one": "made"}
    before = digest_tree(tmp_path / "dist")
    with pytest.raises(EdgepackError), signing(tmp_path / "dist/one-kiosk-one", context=context):
        raise EdgepackError("no key")
    assert digest_tree(tmp_path / "dist") == before


@pytest.mark.parametrize("left", [".tar.zst", ".deb"])
def test_what_is_left_of_a_signed_release_is_not_replaced(
    states: Callable[..., dict[str, str]], tmp_path: Path, left: str
) -> None:
    """It was, where the bundle's folder was removed: an archive is what one keeps of a release, or downloads."""
    project = '[[bundle]]\nmodel = "one"\ntargets = ["kiosk-one"]\npackages = ["deb"]\n'
    (tmp_path / "edgepack.toml").write_text(project)
    private, _ = new_keys(tmp_path / "team", password=None)
    dist = tmp_path / "dist"
    if left == ".deb":  # of an unsigned build before
        assert states() == {"one": "made"}
    python_api.bundle(
        tmp_path / "one",
        target="kiosk-one",
        output=dist,
        settings={"model.min_agreement": 0.5},
        packages=["deb"],
        key=private,
        force=True,
        offline=True,
    )
    for path in dist.iterdir():
        if left not in path.name and path.name != REMEMBERED:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    release = digest_tree(dist)
    assert states() == {"one": "failed"}
    assert digest_tree(dist) == release
    assert states(force=True) == {"one": "made"}


@pytest.mark.slow
def test_a_package_that_another_bundle_has_is_not_replaced(
    states: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    """Each build made the first one's again, and the second's was gone: a package is called by less than its bundle."""
    shutil.copytree(tmp_path / "two", tmp_path / "elsewhere/t_wo")
    shutil.copytree(tmp_path / "two", tmp_path / "t-wo")
    project = PROJECT.replace('"none"', '"elsewhere/t_wo"').replace('"two"', '"t-wo"')
    (tmp_path / "edgepack.toml").write_text(
        project.replace('targets = ["kiosk-one"]', 'targets = ["kiosk-one"]\npackages = ["deb"]')
    )
    made = python_api.build(tmp_path / "edgepack.toml", offline=True)
    assert [each.state for each in made] == ["made", "made", "failed"]
    assert ".deb is that of t_wo-kiosk-one" in str(made[2].error)
    made = python_api.build(tmp_path / "edgepack.toml", offline=True)
    assert [each.state for each in made] == ["up to date", "up to date", "failed"]
    shutil.rmtree(tmp_path / "dist")
    assert set(states(dry_run=True).values()) == {"to be made"}


def test_two_that_would_be_one_folder_are_refused(
    states: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "one", tmp_path / "elsewhere" / "one")
    (tmp_path / "edgepack.toml").write_text(PROJECT.replace('"none"', '"elsewhere/one"'))
    made = python_api.build(tmp_path / "edgepack.toml", offline=True, dry_run=True)
    assert [each.state for each in made] == ["to be made", "failed", "to be made"]
    assert "as one:kiosk-one is" in str(made[1].error)


@pytest.mark.slow
def test_another_version_of_whom_a_builder_delegates_to_is_a_change(
    states: Callable[..., dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    (site / "edgepack_box-1.0.dist-info").mkdir()
    (site / "edgepack_box-1.0.dist-info/METADATA").write_text("Name: edgepack-box\nVersion: 1.0\n")
    (site / "edgepack_box-1.0.dist-info/entry_points.txt").write_text("[edgepack]\nbox = edgepack_box\n")
    (site / "edgepack_box.py").write_text(BOX.replace('"saw", ', ""))
    monkeypatch.delitem(sys.modules, "edgepack_box", raising=False)
    (tmp_path / "box.toml").write_text(TARGET.replace('"kiosk"', '"box"'))
    (tmp_path / "edgepack.toml").write_text('[[bundle]]\nmodel = "one"\ntargets = ["box.toml"]\n')
    assert states() == {"one": "made"}
    assert states(dry_run=True) == {"one": "up to date"}
    said = site / "edgepack_kiosk-1.2.dist-info/METADATA"
    said.write_text(said.read_text().replace("Version: 1.2", "Version: 1.3"))
    said.parent.rename(site / "edgepack_kiosk-1.3.dist-info")  # as installers do
    assert states() == {"one": "made"}
    assert states(dry_run=True) == {"one": "up to date"}


@pytest.mark.slow
def test_a_build_waits_for_another_that_puts_the_same_bundle_in_its_place(
    states: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "edgepack.toml").write_text('[[bundle]]\nmodel = "one"\ntargets = ["kiosk-one"]\n')
    place = tmp_path / "dist/one-kiosk-one"
    done: list[dict[str, str]] = []
    told = threading.Event()

    def warned(story: Story, message: str) -> None:
        if message == f"another build is putting {place} in its place: waiting until it is done":
            told.set()

    with pytest.MonkeyPatch.context() as patch, held_place(place, waiting=told.set):
        patch.setattr(Story, "warn", warned)
        other = threading.Thread(target=lambda: done.append(states(force=True)))
        other.start()
        assert told.wait(120)
        assert not place.exists()
    other.join(120)
    assert done == [{"one": "made"}]
    assert (place / "boot.bin").read_bytes() == b"firmware"


@pytest.mark.slow
def test_other_texts_to_calibrate_with_are_a_change(
    states: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("a text\n")
    said = f'model = "one"\nsettings = {{ "model.calibration" = "{texts}" }}'
    (tmp_path / "edgepack.toml").write_text(PROJECT.replace('model = "one"', said))
    assert states()["one"] == "made"
    assert states(dry_run=True)["one"] == "up to date"
    texts.write_text("another\n")
    assert states(dry_run=True)["one"] == "to be made"


@pytest.mark.parametrize("before", ["killed", "signed"])
def test_what_is_made_is_signed_and_what_is_up_to_date_stays_so(
    states: Callable[..., dict[str, str]], tmp_path: Path, before: str
) -> None:
    """`states` fills the folder with an unsigned bundle first; another key signs it anew."""
    project = '[[bundle]]\nmodel = "one"\ntargets = ["kiosk-one"]\npackages = ["deb"]\n'
    (tmp_path / "edgepack.toml").write_text(project)
    keys = [new_keys(tmp_path / name, password=None) for name in ("team", "other")]
    bundle = tmp_path / "dist/one-kiosk-one"
    assert states() == {"one": "made"}
    if before == "killed":
        # As a run leaves it that is killed while it packs the archive.
        with suppress(KeyboardInterrupt), python_api._context() as own, signing(bundle, context=own):
            sign_bundle(open_bundle(bundle), load_private(keys[0][0], password=None))
            raise KeyboardInterrupt
    else:
        python_api.sign(bundle, key=keys[0][0])
    (package,) = bundle.parent.glob("*.deb")
    signed = []
    for private, public in (keys[0], keys[0], keys[1]):
        made = python_api.build(tmp_path / "edgepack.toml", offline=True, key=private)
        assert [each.state for each in made] == ["up to date"]
        for what in (bundle, bundle.with_name(f"{bundle.name}.tar.zst"), package):
            assert python_api.check_signature(what, key=public).name == bundle.name
        for name in ("report", "provenance"):
            assert is_signed_file(bundle.with_name(f"{bundle.name}.{name}.json"), load_public(public))
        signed.append((bundle / "signature.sigstore.json").stat().st_mtime_ns)
    assert signed[0] == signed[1] != signed[2]
