"""Servers of a store that send more than they said, or lead elsewhere."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.serving import Asked, Reply, file, serving

from edgepack_fsspec import blobs
from edgepack_fsspec.blobs import open_store

MORE = bytes(32 << 20)


def test_a_server_is_not_listened_to_for_more_than_it_said(tmp_path: Path) -> None:
    def lying(asked: Asked) -> Reply:
        return Reply(headers={"Content-Length": "4"}) if asked.method == "HEAD" else Reply(body=MORE)

    with serving() as server:
        server.on("/store/sound", file(b"four"))
        server.on("/store/lie", lying)
        store = open_store(f"{server.base}/store")
        assert store.size("sound") == 4
        assert store.get("sound", tmp_path / "sound") and (tmp_path / "sound").read_bytes() == b"four"
        for _ in range(2):
            with pytest.raises(OSError, match="lie is more than the 4 bytes that the store says"):
                store.get("lie", tmp_path / "lie")
            assert (tmp_path / "lie").stat().st_size < len(MORE)
        assert not store.get("absent", tmp_path / "absent")


def test_a_file_that_grows_is_not_copied_further(tmp_path: Path) -> None:
    """It took all of the disk, before the copy was measured."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store/grows").write_bytes(b"four")
    store = open_store(str(tmp_path / "store"))
    assert store.get("grows", tmp_path / "sound") and (tmp_path / "sound").read_bytes() == b"four"
    assert store.size("grows") == 4
    (tmp_path / "store/grows").write_bytes(MORE)
    with pytest.raises(OSError, match="more bytes than it had before"):
        store.get("grows", tmp_path / "got")
    assert (tmp_path / "got").stat().st_size <= 4
    assert not store.get("absent", tmp_path / "absent")


def test_a_link_in_a_folder_leads_nobody_out_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "store/sha256").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/read").touch()
    store = open_store(str(tmp_path / "store"))
    asks: tuple[Callable[[], object], ...] = (
        lambda: store.put("sha256/aa/file", tmp_path / "elsewhere/read"),
        lambda: store.get("sha256/read", tmp_path / "got"),
        lambda: store.has("sha256/read"),
        lambda: store.size("sha256/read"),
    )
    for ask in asks:
        with pytest.raises(OSError, match="leads out of the store"):
            ask()
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["read"]
    store.put("other/file", tmp_path / "elsewhere/read")
    assert store.has("other/file")


def test_no_server_elsewhere_leads_to_a_service_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "is_loopback", lambda host: host == "localhost")

    def leading(asked: Asked) -> Reply:
        if asked.method == "HEAD" and asked.path.endswith("/read"):
            return Reply(headers={"Content-Length": "4"})
        return Reply(status=307, headers={"Location": place})

    with serving() as server:
        place = server.on("/secret", file(b"four")).replace("127.0.0.1", "localhost")
        for name in ("read", "looked-for"):
            server.on(f"/store/{name}", leading)
        store = open_store(f"{server.base}/store")
        with pytest.raises(OSError, match="leads to localhost, which is this machine"):
            store.get("read", tmp_path / "got")
        assert store.size("looked-for") is None
        assert "/secret" not in [asked.path for asked in server.asked]
