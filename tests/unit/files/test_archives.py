"""Every attack through every format: an archive writes into its folder and nowhere else, and no more than it may."""

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import zstandard

from edgepack.bundles.archive import lies_beside, unpack_bundle
from edgepack.errors import BundleError, DownloadError, EdgepackError, ModelError
from edgepack.fetch.unpack import unpack_download, unpack_matching
from edgepack.files import archives
from edgepack.files.archives import BadArchive, Budget, is_plain_zip, opened
from edgepack.files.unpack import unpack
from edgepack.models.find.unpack import unpack_model

FILE, FOLDER, LINK, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
DEVICE, DISK, PIPE = tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE
ZIP_KINDS = {
    FILE: stat.S_IFREG,
    FOLDER: stat.S_IFDIR,
    LINK: stat.S_IFLNK,
    DEVICE: stat.S_IFCHR,
    DISK: stat.S_IFBLK,
    PIPE: stat.S_IFIFO,
}


@dataclass(frozen=True)
class Put:
    """One entry to be packed."""

    name: str
    kind: bytes = FILE
    link: str = ""
    content: bytes = b"x"
    mode: int = 0o644


def tarred(entries: Sequence[Put]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in entries:
            info = tarfile.TarInfo(entry.name)
            info.type, info.linkname, info.mode = entry.kind, entry.link, entry.mode
            info.size = len(entry.content) if entry.kind == FILE else 0
            tar.addfile(info, io.BytesIO(entry.content))
    return buffer.getvalue()


def zipped(entries: Sequence[Put]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in entries:
            info = zipfile.ZipInfo(entry.name + ("/" if entry.kind == FOLDER else ""))
            info.filename = entry.name + ("/" if entry.kind == FOLDER else "")  # as it is, absolute or not
            info.external_attr = (ZIP_KINDS[entry.kind] | entry.mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, entry.link.encode() or (b"" if entry.kind == FOLDER else entry.content))
    return buffer.getvalue()


def debian(data: bytes, suffix: str) -> bytes:
    def member(name: str, content: bytes) -> bytes:
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        return head + content + b"\n" * (len(content) % 2)

    parts = {"debian-binary": b"2.0\n", "control.tar.gz": b"odd", f"data.tar{suffix}": data}
    return b"!<arch>\n" + b"".join(member(name, content) for name, content in parts.items())


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}
TARS = [f"a.tar{compression}" for compression in COMPRESSIONS] + ["a.tgz"]
DEBS = ["a.gz.deb", "a.xz.deb", "a.zst.deb"]
ZIPS = ["a.zip", "a.whl"]


def packed(tar: bytes, name: str) -> bytes:
    """A tar as the format that a name says."""
    if name.endswith(".deb"):
        compression = Path(name).with_suffix("").suffix
        return debian(COMPRESSIONS[compression](tar), compression)
    return COMPRESSIONS[".gz" if name == "a.tgz" else name.removeprefix("a.tar")](tar)


def archive(folder: Path, name: str, entries: Sequence[Put]) -> Path:
    path = folder / name
    path.write_bytes(zipped(entries) if name in ZIPS else packed(tarred(entries), name))
    return path


GOOD = [
    Put("top", FOLDER),
    Put("top/run", content=b"program", mode=0o4777),
    Put("top/empty", FOLDER, mode=0),
    Put("top/deep/er/data", content=b"data" * 5000, mode=0o600),
]


@pytest.mark.parametrize("name", [*TARS, *DEBS, *ZIPS])
@pytest.mark.parametrize("executables", [True, False])
def test_what_is_sound_is_laid_out_with_ordinary_modes(tmp_path: Path, name: str, executables: bool) -> None:
    unpack(archive(tmp_path, name, GOOD), tmp_path / "out", executables=executables)
    found = {path.relative_to(tmp_path / "out").as_posix(): path for path in (tmp_path / "out").rglob("*")}
    assert {name for name, path in found.items() if path.is_file()} == {"top/run", "top/deep/er/data"}
    assert found["top/run"].read_bytes() == b"program"
    assert found["top/deep/er/data"].read_bytes() == b"data" * 5000
    assert stat.S_IMODE(found["top/run"].stat().st_mode) == (0o755 if executables else 0o644)
    assert stat.S_IMODE(found["top/deep/er/data"].stat().st_mode) == 0o644


@pytest.mark.parametrize("name", [*TARS, *DEBS])
def test_links_that_stay_inside_are_laid_out_where_they_are_taken(tmp_path: Path, name: str) -> None:
    links = [Put("top/deep/up", LINK, "../run"), Put("top/again", HARD, "top/run")]
    made = archive(tmp_path, name, [*GOOD, *links])
    unpack(made, tmp_path / "out", kinds=("file", "link", "hard link"))
    assert (tmp_path / "out/top/deep/up").readlink() == Path("../run")
    assert (tmp_path / "out/top/again").samefile(tmp_path / "out/top/run")


ATTACKS: dict[str, list[Put]] = {
    "dotdot": [Put("../evil")],
    "dotdot below": [Put("top/../../evil")],
    "dotdot in the middle": [Put("top/../evil")],
    "dotdot as a folder": [Put("..", FOLDER), Put("../evil")],
    "absolute": [Put("/evil")],
    "absolute, twice": [Put("//evil")],
    "backslashes": [Put("..\\evil")],
    "a backslash": [Put("\\evil")],
    "a drive": [Put("C:/evil")],
    "link out": [Put("top/link", LINK, "../../outside")],
    "link to the root": [Put("top/link", LINK, "/")],
    "link to a file": [Put("top/link", LINK, "/etc/passwd")],
    "through a link out": [Put("top/link", LINK, "../.."), Put("top/link/evil")],
    "through a loop": [Put("a", LINK, "b"), Put("b", LINK, "a"), Put("a/evil")],
    "a link that a later link leads out": [
        Put("a/b/first", LINK, "second/../../.."),
        Put("a/b/second", LINK, "../.."),
    ],
    "through a link that a later link leads out": [
        Put("a/b/first", LINK, "second/../../.."),
        Put("a/b/second", LINK, "../.."),
        Put("a/b/first/evil"),
    ],
    "a folder that becomes a link": [Put("a/file"), Put("a", LINK, "../.."), Put("a/evil")],
    "a link in the place of a folder": [
        Put("a", FOLDER),
        Put("b", LINK, "a"),
        Put("a", LINK, "../.."),
        Put("b/evil"),
    ],
    "hard link out": [Put("link", HARD, "../outside")],
    "hard link to a file": [Put("link", HARD, "/etc/passwd")],
    "hard link to nothing": [Put("link", HARD, "nothing")],
    "hard link to itself": [Put("link", HARD, "link")],
    "hard link to what was there": [Put("link", HARD, "there")],
    "hard link to a link": [Put("a", LINK, "b"), Put("c", HARD, "a")],
    "hard link to a folder": [Put("a/file"), Put("c", HARD, "a")],
    "hard link through a link that another, replaced, leads out": [
        Put("x/y/z/w/file"),
        Put("p/q/second", LINK, "../../x/y/z/w"),
        Put("p/q/first", LINK, "second/../../../.."),
        Put("p/q/first/outside"),
        Put("alias", LINK, "p/q"),
        Put("alias/second", LINK, "."),
        Put("stolen", HARD, "p/q/first/outside"),
    ],
    "through a link that was there": [Put("leads/evil")],
    "through a link that was there, to a folder": [Put("leads/evil/file")],
    "device": [Put("device", DEVICE)],
    "disk": [Put("disk", DISK)],
    "pipe": [Put("pipe", PIPE)],
    "the same file twice": [Put("top/a"), Put("top/a", content=b"other")],
    "the same file in other words": [Put("top/a"), Put("./top//a", content=b"other")],
    "a file twice, the second through a link": [Put("a/x"), Put("l", LINK, "a"), Put("l/x"), Put("../evil")],
    "below a file": [Put("a"), Put("a/b")],
    "a file in the place of a folder": [Put("a/b"), Put("a")],
    "a file that is the folder": [Put(".")],
    "a long name": [Put("n" * 300)],
    "a long path": [Put("/".join(["n" * 200] * 30))],
    "folders in folders": [Put("a/" * 1500 + "file")],
}


def prepared(place: Path) -> Path:
    """The folder to unpack into, two below a file that no archive may touch; in it a file, and a link that leads out."""
    (place / "deep/out").mkdir(parents=True)
    (place / "outside").write_bytes(b"before")
    (place / "deep/out/there").write_bytes(b"before")
    (place / "deep/out/leads").symlink_to("../..")
    return place / "deep/out"


def require_untouched(place: Path) -> None:
    """What lies beside the folder to unpack into is as it was, and nothing in there is somebody else's."""
    out = place / "deep/out"
    assert (place / "outside").read_bytes() == b"before"
    assert (place / "outside").stat().st_nlink == 1
    assert not Path("/evil").exists()
    for path in place.rglob("*"):
        assert "evil" not in path.name or path.resolve().is_relative_to(out)
        assert path.is_symlink() or path.is_dir() or stat.S_ISREG(path.lstat().st_mode)
        assert os.path.realpath(path) != "/etc/passwd"


def require_refused(
    tmp_path: Path, name: str, error: type[Exception], call: Callable[[Path, Path], object]
) -> None:
    """Every attack that a format can carry (zip has no hard links) ends in this error and touches nothing."""
    for number, (attack, entries) in enumerate(ATTACKS.items()):
        if name in ZIPS and any(entry.kind == HARD for entry in entries):
            continue
        place = tmp_path / str(number)
        out = prepared(place)
        try:
            call(archive(place, name, entries), out)
        except error:
            require_untouched(place)
        else:
            pytest.fail(f"{attack} was not refused")


@pytest.mark.sample(5)
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", [*TARS, *DEBS, *ZIPS])
def test_no_attack_gets_out_by_any_format(tmp_path: Path, name: str) -> None:
    trusting = partial(unpack, kinds=("file", "link", "hard link"), executables=True, onto=True)
    require_refused(tmp_path / "trusting", name, BadArchive, trusting)
    require_refused(tmp_path / "strict", name, BadArchive, unpack)


@pytest.mark.parametrize("name", [*TARS, *DEBS])
@pytest.mark.parametrize("link", ["..", "../outside", "/etc/passwd", "{out}/there", "a/../.."])
def test_a_link_that_leads_out_is_refused_before_it_is_made(tmp_path: Path, name: str, link: str) -> None:
    out = prepared(tmp_path)
    made = archive(tmp_path, name, [Put("link", LINK, link.format(out=out))])
    with pytest.raises(BadArchive, match="link that leads out of it: link -> "):
        unpack(made, out, kinds=("file", "link"))
    assert not (out / "link").is_symlink()


CALLERS: dict[str, tuple[Callable[[Path, Path], object], type[EdgepackError], list[str]]] = {
    "bundle": (lambda made, out: unpack_bundle(made, out / "bundle"), BundleError, ["a.tar.zst"]),
    "fetched": (unpack_download, DownloadError, [*TARS, *DEBS]),
    "matching": (lambda made, out: unpack_matching(made, out, ["*"]), DownloadError, ["a.tgz", "a.whl"]),
    "model": (unpack_model, ModelError, ["a.zip", "a.tar.gz", "a.tar.xz", "a.tar.zst", "a.whl"]),
}


@pytest.mark.sample(3)
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("caller", CALLERS)
def test_each_user_says_it_as_an_error_of_its_own(tmp_path: Path, caller: str) -> None:
    call, error, names = CALLERS[caller]
    for name in names:
        require_refused(tmp_path / name, name, error, call)


def header(name: str, kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def sparse(size: int) -> bytes:
    """A member that says to hold so many bytes, and has none."""
    fields = ("GNU.sparse.major=1\n", "GNU.sparse.minor=0\n", f"GNU.sparse.realsize={size}\n")
    record = b"".join(f"{len(field) + 3} {field}".encode() for field in fields)
    return (
        header("pax", tarfile.XHDTYPE, len(record))
        + record.ljust(512, b"\0")
        + header("holes", FILE, 512)
        + b"0\n".ljust(512, b"\0")
    )


BOMBS = {
    "a large file": tarred([Put("zeros", content=bytes(4 << 20))]),
    "many files": tarred([Put(str(number)) for number in range(50)]),
    "many folders": tarred([Put(str(number), FOLDER) for number in range(50)]),
    "folders on the way": tarred([Put(f"{number}{'/a' * 9}/f") for number in range(5)]),
    "a large header": header("pax", tarfile.XHDTYPE, 1 << 20) + bytes(1 << 20),
    "a large name": header("long", tarfile.GNUTYPE_LONGNAME, 1 << 20) + b"n" * (1 << 20),
    "a header that promises much": header("pax", tarfile.XHDTYPE, 8**11 - 1),
    "headers of headers": b"".join(header("pax", tarfile.XHDTYPE, 0) for _ in range(3000)),
    "holes": sparse(1 << 40) + bytes(1024),
    "holes of old": header("holes", tarfile.GNUTYPE_SPARSE, 0) + bytes(1024),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("name", [*TARS, *DEBS])
def test_bombs_are_noticed_before_they_fill_anything(
    tmp_path: Path, name: str, bomb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "ALWAYS_ALLOWED", 1 << 20)
    monkeypatch.setattr(archives, "MAX_RATIO", 0.2)
    made = tmp_path / name
    made.write_bytes(packed(BOMBS[bomb], name))
    budget = Budget.of(made, entries=40)
    with pytest.raises(BadArchive):
        unpack(made, tmp_path / "out", budget=budget)
    laid = list((tmp_path / "out").rglob("*"))
    assert sum(path.stat().st_size for path in laid if path.is_file()) <= 1 << 20
    assert len(laid) <= 40


@pytest.mark.parametrize("name", [*TARS, *DEBS])
@pytest.mark.parametrize("bomb", ["a large header", "a large name", "a header that promises much"])
def test_no_header_is_read_that_fills_the_memory(tmp_path: Path, name: str, bomb: str) -> None:
    (tmp_path / name).write_bytes(packed(BOMBS[bomb], name))
    with pytest.raises(BadArchive, match="it holds a header of"):
        unpack(tmp_path / name, tmp_path / "out")


ODD_HEADERS = {
    "digits": b"1" * 60_000,
    "keys in keys": b"2 " * 30_000 + b"=",
    "digits in a name": b"216 path=" + b"1" * 206 + b"\n",
    "no end": b"11 path=a b",
    "nothing": b"9 mtime 1\n",
}


@pytest.mark.parametrize("name", [*TARS, *DEBS])
@pytest.mark.parametrize("odd", ODD_HEADERS)
def test_a_header_takes_no_longer_than_it_is_long(tmp_path: Path, name: str, odd: str) -> None:
    """Python 3.11.7 took 43 s and 898 MB for the first two, in archives of some hundred bytes each."""
    body = ODD_HEADERS[odd]
    one = header("pax", tarfile.XHDTYPE, len(body)) + body + bytes(-len(body) % 512) + header("f", FILE, 0)
    (tmp_path / name).write_bytes(packed(one * 50 + bytes(1024), name))
    with pytest.raises(BadArchive):
        unpack(tmp_path / name, tmp_path / "out")


@pytest.mark.parametrize("name", [*TARS, *DEBS, *ZIPS])
def test_what_is_not_wanted_counts_too(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = archive(tmp_path, name, [Put(str(number), content=b"") for number in range(11)])
    with pytest.raises(BadArchive, match="more than 10 files"):
        unpack(made, tmp_path / "out", where=lambda path: None, budget=Budget.of(made, entries=10))


def test_a_pipe_and_zeros_without_end_are_no_archives(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadArchive, match="is no file"), opened(tmp_path / "pipe"):
        pass
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(1 << 40)
    with (
        pytest.raises(BadArchive, match="goes on behind its end"),
        opened(tmp_path / "zeros") as members,
    ):
        list(members)


def telling(kind: bytes, content: bytes) -> bytes:
    return header("more", kind, len(content)) + content.ljust(512, b"\0")


def summed(block: bytes) -> bytes:
    return block[:148] + b"%06o\0 " % (sum(block[:148]) + sum(block[156:]) + 8 * 32) + block[156:]


PATH, SIZE = b"9 path=b\n", b"10 size=0\n"
BODY = b"good".ljust(512, b"\0")


@pytest.mark.parametrize(
    "content",
    [
        telling(tarfile.XHDTYPE, PATH) + telling(tarfile.XHDTYPE, PATH.replace(b"b", b"c")),
        telling(tarfile.XHDTYPE, PATH) + telling(tarfile.GNUTYPE_LONGNAME, b"c\0"),
        telling(tarfile.GNUTYPE_LONGNAME, b"c\0") + telling(tarfile.XHDTYPE, PATH),
        telling(tarfile.GNUTYPE_LONGNAME, b"c\0") * 2,
        telling(tarfile.XHDTYPE, SIZE),
        summed(header("b", FILE, 0).replace(b"%011o" % 0, b"+0".rjust(11), 1)),
        summed(header("b", FILE, 0).replace(b"%011o" % 0, b"0_0".rjust(11), 1)),
    ],
)
def test_a_member_of_which_programs_read_different_things_is_refused(tmp_path: Path, content: bytes) -> None:
    """GNU tar, busybox and Python differ in which of two headers counts, and in whether a size does."""
    archive = tmp_path / "two.tar"
    archive.write_bytes(content + header("a", FILE, 4) + BODY + bytes(1024))
    with pytest.raises(BadArchive), opened(archive) as members:
        list(members)


@pytest.mark.parametrize(
    ("name", "kind"), [("s", LINK), ("s", HARD), ("s", FOLDER), ("s/", tarfile.AREGTYPE)]
)
def test_a_link_or_folder_with_content_is_odd(tmp_path: Path, name: str, kind: bytes) -> None:
    archive = tmp_path / "link.tar"
    archive.write_bytes(header(name, kind, 512) + header("a", FILE, 4) + BODY + bytes(1024))
    with opened(archive) as members:
        assert next(members).kind == "odd"


def both(first: bytes, rest: bytes) -> bytes:
    """A tar that is another one under zstd: its first header, of which nobody reads the name, and which zstd passes over."""
    empty = b"\x28\xb5\x2f\xfd\x20\0\1\0\0"
    head = bytearray(telling(tarfile.GNUTYPE_LONGNAME, b"evil\0"))
    head[:17] = empty + b"\x50\x2a\x4d\x18" + struct.pack("<I", len(head) + len(first) - 17)
    return summed(bytes(head[:512])) + bytes(head[512:]) + first + zstandard.compress(rest)


def test_a_tar_with_and_without_its_compression_is_refused(tmp_path: Path) -> None:
    polyglot = both(tarred([Put("a", content=b"evil")]), tarred([Put("a", content=b"good")]))
    with tarfile.open(fileobj=io.BytesIO(polyglot)) as tar:
        assert tar.getnames()[0] == "evil"
    (tmp_path / "a.tar.zst").write_bytes(polyglot)
    with pytest.raises(BadArchive, match="with and without"), opened(tmp_path / "a.tar.zst") as members:
        list(members)


@pytest.mark.parametrize(
    "change",
    [
        lambda deb: deb.replace(b"data.tar.gz", b"data.tar   "),
        lambda deb: deb.replace(b"data.tar.gz", b"data.tar.xz"),
        lambda deb: deb.replace(b"data.tar.gz", b"data.tarred"),
        lambda deb: deb.replace(b"control.tar.gz", b"xontrol.tar.gz"),
        lambda deb: deb + deb[8:],
    ],
)
def test_a_deb_of_which_dpkg_reads_something_else_is_refused(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    good = debian(gzip.compress(tarred([Put("a")])), ".gz")
    (tmp_path / "a.deb").write_bytes(change(good))
    with pytest.raises(BadArchive), opened(tmp_path / "a.deb") as members:
        list(members)


def test_gnus_two_headers_of_one_member_are_read(tmp_path: Path) -> None:
    long = "a/" * 60 + "name"
    info = tarfile.TarInfo(long)
    info.type, info.linkname = LINK, long.replace("name", "leads")
    archive = tmp_path / "gnu.tar"
    archive.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with opened(archive) as members:
        (member,) = members
        assert (str(member.path), member.link) == (long, info.linkname)


@pytest.mark.parametrize("zeros", [512, 1024, 10240])
def test_what_lies_behind_a_tars_end_is_refused(tmp_path: Path, zeros: int) -> None:
    """Some programs read on behind one block of zeros, and would unpack other files than were looked at."""
    first, second = (tarred([Put("a", content=content)]) for content in (b"good", b"evil"))
    archive = tmp_path / "two.tar"
    archive.write_bytes(first.rstrip(b"\0") + bytes(-len(first.rstrip(b"\0")) % 512 + zeros) + second)
    with pytest.raises(BadArchive, match="goes on behind its end"), opened(archive) as members:
        for member in members:
            assert b"".join(member.chunks()) == b"good"


@pytest.mark.parametrize("name", [*TARS, *DEBS, *ZIPS])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_an_archive_that_was_cut_off_is_refused(tmp_path: Path, name: str, share: float) -> None:
    made = archive(tmp_path, name, [Put("a", content=os.urandom(500_000)), Put("b"), Put("c")])
    made.write_bytes(made.read_bytes()[: int(made.stat().st_size * share)])
    with pytest.raises(BadArchive):
        unpack(made, tmp_path / "out")


@pytest.mark.parametrize("name", [*TARS, *DEBS])
@pytest.mark.parametrize("keep", [512, 1024, 1500, 2048, 2100])
def test_a_tar_without_its_end_is_refused(tmp_path: Path, name: str, keep: int) -> None:
    """Cut where tarfile takes it for the end."""
    (tmp_path / name).write_bytes(packed(tarred([Put("a"), Put("b"), Put("c")])[:keep], name))
    with pytest.raises(BadArchive):
        unpack(tmp_path / name, tmp_path / "out")


@pytest.mark.parametrize("name", [*TARS, *DEBS])
def test_a_header_that_is_damaged_is_not_the_end(tmp_path: Path, name: str) -> None:
    content = bytearray(tarred([Put("a"), Put("b"), Put("c")]))
    content[1024 + 3] ^= 0x55
    (tmp_path / name).write_bytes(packed(bytes(content), name))
    with pytest.raises(BadArchive, match="end of data"):
        unpack(tmp_path / name, tmp_path / "out")


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tar.bz2", "a.tar.xz", "a.tar.zst", *DEBS])
def test_damage_is_noticed_by_the_checksum_at_the_end(tmp_path: Path, name: str) -> None:
    made = archive(tmp_path, name, [Put("a", content=os.urandom(50_000)), Put("b")])
    if name.endswith("zst") or name == "a.zst.deb":
        tar = tarred([Put("a", content=os.urandom(50_000)), Put("b")])
        compressed = zstandard.ZstdCompressor(write_checksum=True).compress(tar)
        made.write_bytes(compressed if name == "a.tar.zst" else debian(compressed, ".zst"))
    content = bytearray(made.read_bytes())
    content[len(content) // 2] ^= 0x01
    made.write_bytes(content)
    with pytest.raises(BadArchive):
        unpack(made, tmp_path / "out")


def test_a_deb_whose_sizes_are_wrong(tmp_path: Path) -> None:
    good = debian(COMPRESSIONS[".gz"](tarred([Put("a")])), ".gz")
    for size in (b"-1        ", b"          ", b"9999999999", b"1e3       "):
        (tmp_path / "a.deb").write_bytes(good[: 8 + 48] + size + good[8 + 58 :])
        with pytest.raises(BadArchive):
            unpack(tmp_path / "a.deb", tmp_path / "out")


def test_what_is_there_already_is_replaced_only_where_that_is_wanted(tmp_path: Path) -> None:
    made = archive(tmp_path, "a.tar", [Put("a", content=b"new")])
    (tmp_path / "out").mkdir()
    (tmp_path / "other").write_bytes(b"before")
    (tmp_path / "out/a").symlink_to("../other")
    with pytest.raises(BadArchive, match="twice"):
        unpack(made, tmp_path / "out")
    unpack(made, tmp_path / "out", onto=True)
    assert (tmp_path / "out/a").read_bytes() == b"new" and not (tmp_path / "out/a").is_symlink()
    assert (tmp_path / "other").read_bytes() == b"before", "nothing is written through a link"


def test_members_are_read_one_after_the_other(tmp_path: Path) -> None:
    made = archive(tmp_path, "a.tar.zst", GOOD)
    with opened(made) as members:
        found = [
            (str(member.path), member.kind, b"".join(member.chunks())[:4])
            for member in members
            if member.size
        ]
    assert found == [("top/run", "file", b"prog"), ("top/deep/er/data", "file", b"data")]


@pytest.mark.parametrize("name", ZIPS)
def test_a_zip_whose_directory_leads_before_its_beginning_is_refused(tmp_path: Path, name: str) -> None:
    made = archive(tmp_path, name, [Put("a"), Put("b")])
    whole = made.read_bytes()
    for cut in (1, 20, 40):
        made.write_bytes(whole[cut:])
        with pytest.raises(BadArchive):
            unpack(made, tmp_path / f"out{cut}")


END, END_64, PLACE_OF_64 = "<4s4H2IH", "<4sQ2H2I4Q", "<4sIQI"


def with_two_lists(form: str) -> bytes:
    """A zip of which zipfile reads that ``own`` is in it, and Java, Android or Go that ``other`` is."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr(zipfile.ZipInfo("other"), b"x" * 100)
        made.writestr(zipfile.ZipInfo("own"), b"y")
    whole = buffer.getvalue()
    size, start = struct.unpack_from("<2I", whole, len(whole) - 10)
    members, listed = whole[:start], whole[start : start + size]
    at = listed.index(b"PK\1\2", 1)
    other, own = listed[:at], bytearray(listed[at:])

    def end(size: int, start: int, comment: int = 0) -> bytes:
        return struct.pack(END, b"PK\5\6", 0, 0, 1, 1, size, start, comment)

    if form == "by its place":  # as Go finds it
        struct.pack_into("<I", own, 42, struct.unpack_from("<I", own, 42)[0] - len(other))
        return members + other + own + end(len(own), start)
    if form == "in a comment":
        behind = own + end(len(own), start + len(other) + 22) + b"\1" * 9
        return members + other + end(len(other), start, len(behind)) + behind
    place = start + len(other)
    of_64 = struct.pack(END_64, b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(own), place)
    of_64 += struct.pack(PLACE_OF_64, b"PK\6\7", 0, place + len(own), 1)
    hidden = bytes(own) + of_64
    other = other[:32] + struct.pack("<H", len(hidden)) + other[34:] + hidden
    return members + other + end(len(other), start)


@pytest.mark.parametrize("form", ["by its place", "in a comment", "of more than 4 GB"])
def test_a_zip_with_another_list_for_others_is_refused(tmp_path: Path, form: str) -> None:
    place = tmp_path / "made.jar"
    place.write_bytes(with_two_lists(form))
    with zipfile.ZipFile(place) as read:
        assert read.namelist() == ["own"]
    with pytest.raises(BadArchive, match="more than one list of files"), opened(place) as members:
        list(members)


@pytest.mark.parametrize("form", ["plain", "commented", "empty", "as of more than 4 GB"])
def test_a_zip_with_one_list_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    if form == "as of more than 4 GB":
        monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 0)
    with zipfile.ZipFile(tmp_path / "made.jar", "w") as made:
        made.comment = b"x" * 0xFFFF if form == "commented" else b""
        if form != "empty":
            made.writestr("own", "y")
    with opened(tmp_path / "made.jar") as members:
        assert [str(member.path) for member in members] == ([] if form == "empty" else ["own"])


def test_a_plain_zip_is_read_alike_by_its_list_and_from_member_to_member(tmp_path: Path) -> None:
    """Java's ZipInputStream and bsdtar read from member to member: a second program between them won."""
    plain, hidden, other = (tmp_path / f"{name}.zip" for name in ("plain", "hidden", "other"))
    plain.write_bytes(zipped([Put("a"), Put("b", content=b"b" * 99)]))
    assert is_plain_zip(plain)
    hidden.write_bytes(plain.read_bytes())
    with zipfile.ZipFile(hidden, "a") as archive:
        archive.writestr("c", b"evil")
        archive.filelist.pop()
    assert not is_plain_zip(hidden)
    other.write_bytes(plain.read_bytes().replace(b"a", b"c", 1))
    assert not is_plain_zip(other)
    behind = tmp_path / "behind"
    with zipfile.ZipFile(behind, "a") as archive:
        behind.write_bytes(b"\x7fELF" + b"x" * 999)
    with zipfile.ZipFile(behind, "a") as archive:
        archive.writestr("a", b"y")
    assert is_plain_zip(behind)


@pytest.mark.parametrize("other", ["m-1.data/purelib/m/bundle/embed", "x/bundle/embed"])
def test_a_file_that_an_installer_lays_over_the_bundle_is_refused(tmp_path: Path, other: str) -> None:
    """pip lays what is under .data over the rest, npm cuts the first part of each path off."""
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle/embed").touch()
    names = ["m/bundle/manifest.json", "m/bundle/embed", "m/a", "m/b", "m/c", "m/embed", "m/d"]
    right, wrong = (tmp_path / f"{name}.zip" for name in ("right", "wrong"))
    right.write_bytes(zipped([Put(name) for name in names]))
    assert lies_beside(right, tmp_path / "bundle") == "m/a, m/b, m/c and 2 more"
    wrong.write_bytes(zipped([Put(name) for name in (*names, other)]))
    with pytest.raises(BundleError, match="may be laid over the bundle"):
        lies_beside(wrong, tmp_path / "bundle")


def test_a_zips_folder_with_content_is_odd(tmp_path: Path) -> None:
    """``java -cp`` runs a class of that name."""
    with zipfile.ZipFile(tmp_path / "made.jar", "w") as made:
        made.writestr(zipfile.ZipInfo("bundle/"), b"")
        made.writestr(zipfile.ZipInfo("bundle/manifest.json"), b"{}")
        made.writestr(zipfile.ZipInfo("Main.class/"), b"\xca\xfe\xba\xbe")
    with opened(tmp_path / "made.jar") as members:
        assert [member.kind for member in members] == ["folder", "file", "odd"]
    assert lies_beside(tmp_path / "made.jar", tmp_path) == "Main.class"


def test_a_zip_of_many_names_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = archive(tmp_path, ZIPS[0], [Put(f"{number}") for number in range(100)])
    monkeypatch.setattr(archives, "MAX_DIRECTORY", 100 * 46)
    with pytest.raises(BadArchive, match="its list of files has"):
        unpack(made, tmp_path / "out")


def test_a_zip_behind_a_program_is_opened_and_what_is_none_is_said(tmp_path: Path) -> None:
    script = b"#!/bin/sh\nexit 0\n"
    package = tmp_path / "model.run"
    package.write_bytes(script + zipped([Put("folder/file", content=b"content")]))
    with opened(package) as members:
        assert [(str(each.path), b"".join(each.chunks())) for each in members] == [
            ("folder/file", b"content")
        ]
    package.write_bytes(script + gzip.compress(tarred([Put("file")])))
    with (
        pytest.raises(BadArchive, match=r"begins with '#!/bin/sh', and ends with no zip") as caught,
        opened(package),
    ):
        pass
    assert "zip, which is read from its end" in str(caught.value.hint)
