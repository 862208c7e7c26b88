"""What only this user and root may have written."""

import grp
import os
import pwd
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgepack.files.owners import is_ours
from edgepack.files.store import Store
from edgepack.verifier.trusted_bundles import is_made_here, remember

STRANGER = 4242
DIGEST = "0" * 64


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A file two folders below ``tmp_path/cache``, which all of them are this user's."""
    file = tmp_path / "cache" / "made-here" / DIGEST
    file.parent.mkdir(parents=True)
    file.touch()
    for path, mode in ((file, 0o644), (file.parent, 0o755), (file.parent.parent, 0o755)):
        path.chmod(mode)
    return file


def _places(kept: Path) -> dict[str, Path]:
    return {"file": kept, "folder": kept.parent, "cache": kept.parent.parent}


def test_what_is_ours_is(kept: Path, tmp_path: Path) -> None:
    assert is_ours(kept, below=tmp_path / "cache")
    assert is_made_here(DIGEST, store=Store(root=tmp_path / "cache"))
    assert not is_ours(kept.with_name("other"), below=tmp_path / "cache")


@pytest.mark.parametrize("place", ["file", "folder", "cache"])
@pytest.mark.parametrize("mode", [0o002, 0o020])
def test_what_others_may_write_is_not(
    place: str, mode: int, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name="users", gr_mem=[]))
    path = _places(kept)[place]
    path.chmod(path.stat().st_mode | mode)
    assert not is_ours(kept, below=tmp_path / "cache")
    assert not is_made_here(DIGEST, store=Store(root=tmp_path / "cache"))


@pytest.mark.parametrize("place", ["file", "folder", "cache"])
def test_what_belongs_to_another_is_not(place: str, kept: Path, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives files away")
    os.chown(_places(kept)[place], STRANGER, -1)
    assert not is_made_here(DIGEST, store=Store(root=tmp_path / "cache"))


@pytest.mark.parametrize("place", ["file", "folder"])
def test_what_is_elsewhere_is_not(place: str, kept: Path, tmp_path: Path) -> None:
    path = _places(kept)[place]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert not is_ours(kept, below=tmp_path / "cache")


def test_the_cache_itself_may_be_a_link(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    assert is_made_here(DIGEST, store=Store(root=tmp_path / "link"))


@pytest.mark.parametrize(
    ("name", "members", "ours"),
    [("me", (), True), ("me", ("me",), True), ("me", ("me", "other"), False), ("staff", (), False)],
)
def test_a_group_of_one_may_write(
    name: str,
    members: tuple[str, ...],
    ours: bool,
    kept: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the umask 002 of systems that make a group for each user lets it."""
    gid = kept.stat().st_gid
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name=name, gr_mem=list(members)))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="me", pw_gid=gid))
    for path in _places(kept).values():
        path.chmod(path.stat().st_mode | 0o020)
    assert is_ours(kept, below=tmp_path / "cache") is ours


@pytest.mark.parametrize("place", ["file", "folder", "cache"])
def test_an_access_list_gives_others_what_the_group_has(
    place: str, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`setfacl -m u:4242:rwx`: the group's bits are the most that anybody on the list has."""
    monkeypatch.setattr("edgepack.files.owners._is_alone_in", lambda group: True)
    nobody = 0xFFFFFFFF
    entries = [(1, 7, nobody), (2, 7, STRANGER), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody)]
    listed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(_places(kept)[place], "system.posix_acl_access", listed)
    except OSError:
        pytest.skip("this file system has no access lists")
    assert _places(kept)[place].stat().st_mode & 0o020
    assert not is_ours(kept, below=tmp_path / "cache")


def test_what_is_remembered_here_is_ours(tmp_path: Path) -> None:
    store = Store(root=tmp_path)
    remember(DIGEST, store=store)
    assert is_made_here(DIGEST, store=store)
