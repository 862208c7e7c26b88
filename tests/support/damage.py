"""What becomes of a small file that something is remembered in."""

from pathlib import Path

REMEMBERED = {
    "empty": b"",
    "cut off": b'{"sha": "0123',
    "a list": b"[]",
    "a number": b"7",
    "another table": b'{"a": [1]}',
    "brackets": b"[" * 200_000,
    "not text": b"\xff\xfe{",
    "a folder": None,
}
"""How it was damaged → what is there then."""


def damage(root: Path, name: str, how: str) -> None:
    """Do that to every file of this name below a folder; there is at least one."""
    found = sorted(root.rglob(name))
    assert found, name
    for file in found:
        file.unlink()
        content = REMEMBERED[how]
        file.mkdir() if content is None else file.write_bytes(content)
