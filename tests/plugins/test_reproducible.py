"""``edgepack bundle --check-reproducible``: what a stranger's builder lets into a bundle shows in the second build."""

from pathlib import Path

import pytest
from tests.support.command import edgepack
from tests.support.kiosk import install, prepare_site

from edgepack.errors import ReproducibilityError
from edgepack.testing import write_model

pytestmark = pytest.mark.tools("python", "env")
BOOT = '(folder / "boot.bin").write_bytes(b"firmware")'
TIME = '(folder / "boot.bin").write_bytes(b"firmware of " + str(__import__("time").time_ns()).encode())'


def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *changes: tuple[str, str]) -> tuple[int, str]:
    site = prepare_site(tmp_path / "site", monkeypatch)
    install(site, monkeypatch, *changes)
    write_model(tmp_path / "tiny")
    done = edgepack(
        *("bundle", "tiny", "--target", "kiosk-one", "--offline", "--check-reproducible"),
        env={"PYTHONPATH": str(site), "EDGEPACK_CACHE": str(tmp_path / "cache")},
        cwd=tmp_path,
    )
    return done.returncode, done.stderr


@pytest.mark.slow
def test_a_builder_that_writes_the_time_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = bundle(tmp_path, monkeypatch, (BOOT, TIME))
    assert code == ReproducibilityError.exit_code == 22
    assert "error: tiny-kiosk-one: the second build differs: boot.bin at byte " in " ".join(said.split())
    assert "hint: times, random numbers" in said
    assert (tmp_path / "dist/tiny-kiosk-one/manifest.json").is_file(), "the first one was verified, and stays"


@pytest.mark.slow
def test_an_honest_builder_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = bundle(tmp_path, monkeypatch)
    assert code == 0, said
    assert "the same bytes" in said


@pytest.mark.slow
def test_a_signature_is_made_afterwards(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("")
    done = edgepack("bundle", "tiny", "--check-reproducible", "--sign", str(tmp_path / "key"))
    assert done.returncode == 2 and "edgepack sign" in done.stderr
