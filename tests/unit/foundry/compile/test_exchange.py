"""Kernel archives exported and imported: everything is checked before anything is used."""

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import zstandard
from tests.support.small_archive import small_archive

from edgepack.console import Story
from edgepack.errors import BundleError, DiskFullError, UsageError
from edgepack.files.folder import require_kind
from edgepack.files.pack import TarEntry, write_tarball
from edgepack.files.store import Store, key_of
from edgepack.foundry.compile import exchange
from edgepack.foundry.compile.archive import KernelArchive
from edgepack.foundry.compile.exchange import MANIFEST, import_archive, is_exported
from edgepack.foundry.compile.export import export_archive
from edgepack.foundry.compile.plan import COMMANDS
from edgepack.foundry.link.everything import compile_everything
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.sources.pinned import Archive, Catalogue, HostTool, SourcePart
from edgepack.plugins.context import HostContext, host_context

pytestmark = pytest.mark.tools("gcc")

CONTENT = {"onnxruntime.tar": b"the runtime's sources", "eigen.tar": b"its mathematics"}
DIGESTS = {name.split(".")[0]: hashlib.sha256(data).hexdigest() for name, data in CONTENT.items()}
UNITS = {"one": "int two(void); int one(void) { return two(); }", "two": "int two(void) { return 2; }"}


@pytest.fixture(autouse=True)
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of two small archives in the place of ONNX Runtime's."""
    parts = {
        name.split(".")[0]: SourcePart(
            name=name.split(".")[0],
            version="1",
            license="MIT",
            upstream="",
            archives=(Archive(file=name, sha256=hashlib.sha256(data).hexdigest()),),
        )
        for name, data in CONTENT.items()
    }
    tool = HostTool(name="protoc", version="1", arch="x86_64", program="", libraries="", packages=())
    made = Catalogue(version=RELEASE.version, parts=parts, protoc=tool)
    monkeypatch.setitem(RELEASE.__dict__, "catalogue", made)


@pytest.fixture
def contexts(tmp_path: Path) -> Iterator[tuple[HostContext, HostContext, HostContext]]:
    """Three machines."""
    with ExitStack() as stack:
        first, second, third = (
            stack.enter_context(
                host_context(
                    story=Story(quiet=True), offline=True, store=Store(root=tmp_path / name / "cache")
                )
            )
            for name in ("here", "there", "elsewhere")
        )
        yield first, second, third


def an_archive(context: HostContext) -> KernelArchive:
    """Configured, nothing compiled, its sources in the store."""
    for name, data in CONTENT.items():
        digest = hashlib.sha256(data).hexdigest()
        place = context.store.root / "sources" / key_of({"sha256": digest}) / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return small_archive(context.store, sources=UNITS, digests=DIGESTS)


def compiled(archive: KernelArchive, context: HostContext, *names: str) -> int:
    """Make sure of some objects; how many were compiled."""
    archive.log_file.unlink(missing_ok=True)
    archive.compile(names, context=context)
    return archive.log_file.read_text().count("$ ") if archive.log_file.exists() else 0


@pytest.fixture
def exported(contexts: tuple[HostContext, ...], tmp_path: Path) -> Path:
    archive = an_archive(contexts[0])
    compiled(archive, contexts[0], "one", "two")
    export_archive(archive, tmp_path / "a.tar.zst", features=(), with_sources=True, context=contexts[0])
    return tmp_path / "a.tar.zst"


def visible(context: HostContext) -> list[str]:
    """What is in the store, but for locks."""
    root = context.store.root
    return sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root).parts[0] != "locks"
    )


def members(file: Path) -> dict[str, bytes]:
    data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(file.read_bytes())).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def packed(file: Path, content: dict[str, bytes], *extra: tarfile.TarInfo) -> Path:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in extra:
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    file.write_bytes(zstandard.ZstdCompressor().compress(out.getvalue()))
    return file


def with_manifest(content: dict[str, bytes], **changes: Any) -> dict[str, bytes]:
    return {**content, MANIFEST: json.dumps({**json.loads(content[MANIFEST]), **changes}).encode()}


def test_what_was_imported_is_not_compiled_again(
    contexts: tuple[HostContext, HostContext, HostContext], exported: Path
) -> None:
    here, there, _ = contexts
    made = import_archive(exported, context=there)
    assert (made.objects, made.added, made.complete, made.sources) == (2, 2, True, True)
    imported = there.store.root / "kernel-archive" / made.key
    commands = (imported / "build" / COMMANDS).read_text()
    assert str(imported / "build") in commands and str(there.store.root / "source-tree") in commands
    assert str(here.store.root) not in commands and "@" not in commands
    assert (imported / "build/config.h").is_file() and not (imported / "build/zig-cache").exists()
    assert compiled(an_archive(there), there, "one", "two") == 0
    for name, data in CONTENT.items():
        assert next((there.store.root / "sources").glob(f"*/{name}")).read_bytes() == data


def test_the_same_content_gives_the_same_bytes_wherever_it_is(
    contexts: tuple[HostContext, HostContext, HostContext], exported: Path, tmp_path: Path
) -> None:
    _, there, elsewhere = contexts
    import_archive(exported, context=there)
    folder = next((there.store.root / "kernel-archive").glob("[!.]*"))
    archive = an_archive(elsewhere)
    shutil.copytree(folder / "objects", archive.folder / "objects")
    export_archive(archive, tmp_path / "b.tar.zst", features=(), with_sources=True, context=elsewhere)
    assert (tmp_path / "b.tar.zst").read_bytes() == exported.read_bytes()


def test_an_import_adds_to_what_is_there(
    contexts: tuple[HostContext, HostContext, HostContext], exported: Path
) -> None:
    _, there, _ = contexts
    archive = an_archive(there)
    compiled(archive, there, "one")
    before = (archive.folder / "objects/one.o").stat().st_ino
    configured = (archive.build / COMMANDS).read_text()
    assert import_archive(exported, context=there).added == 1
    assert import_archive(exported, context=there).added == 0
    assert (archive.folder / "objects/one.o").stat().st_ino == before
    assert (archive.build / COMMANDS).read_text() == configured
    damaged = archive.folder / "objects/two.o"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert import_archive(exported, context=there).added == 1
    assert compiled(archive, there, "one", "two") == 0


def test_only_sound_objects_are_exported(
    contexts: tuple[HostContext, HostContext, HostContext], tmp_path: Path
) -> None:
    here, there, _ = contexts
    archive = an_archive(here)
    with pytest.raises(UsageError, match="nothing has been compiled"):
        export_archive(archive, tmp_path / "a", features=(), with_sources=False, context=here)
    compiled(archive, here, "one", "two")
    (archive.folder / "objects/two.o").write_bytes(b"damaged")
    (archive.folder / "objects/three.o").write_bytes(b"without a record")
    made = export_archive(archive, tmp_path / "a", features=(), with_sources=False, context=here)
    assert (made.objects, made.complete, made.sources) == (1, False, False)
    assert import_archive(tmp_path / "a", context=there).added == 1
    assert not (there.store.root / "sources").exists()


def test_an_export_replaces_an_export_and_no_other_file(exported: Path, tmp_path: Path) -> None:
    require_kind(exported, is_exported)
    with (tmp_path / "backup.tar.zst").open("wb") as stream:
        write_tarball(stream, [TarEntry(name="notes", source=b"mine")], level=1, window_log=20)
    (tmp_path / "notes").write_text("mine")
    for other in ("backup.tar.zst", "notes"):
        with pytest.raises(UsageError, match="is something else, so it is not replaced"):
            require_kind(tmp_path / other, is_exported)


def test_everything_can_be_compiled_before_it_is_exported(
    contexts: tuple[HostContext, HostContext, HostContext], tmp_path: Path
) -> None:
    here, _, _ = contexts
    archive = an_archive(here)
    assert compile_everything(archive, context=here).keys() == UNITS.keys()
    made = export_archive(archive, tmp_path / "a", features=(), with_sources=False, context=here)
    assert made.complete and made.objects == len(UNITS)


def test_a_file_that_was_cut_off_or_damaged_leaves_nothing(
    contexts: tuple[HostContext, HostContext, HostContext], exported: Path, tmp_path: Path
) -> None:
    _, there, _ = contexts
    content = exported.read_bytes()
    bad = tmp_path / "bad.tar.zst"
    for share in (0, 0.1, 0.5, 0.9, 0.99):
        bad.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(BundleError):
            import_archive(bad, context=there)
        assert visible(there) == []
    for share in (0.02, 0.3, 0.6, 0.95):
        damaged = bytearray(content)
        damaged[int(len(content) * share)] ^= 0x55
        bad.write_bytes(damaged)
        with pytest.raises(BundleError):
            import_archive(bad, context=there)
        assert visible(there) == []


def test_damage_that_the_compression_does_not_notice_is_noticed(
    contexts: tuple[HostContext, HostContext, HostContext], exported: Path, tmp_path: Path
) -> None:
    _, there, _ = contexts
    content = members(exported)
    for name in content:
        if name != MANIFEST:
            changed = {**content, name: content[name][:-1] + b"\xff" if content[name] else b"x"}
            with pytest.raises(BundleError, match=r"damaged|does not list"):
                import_archive(packed(tmp_path / "bad", changed), context=there)
            lacking = {other: data for other, data in content.items() if other != name}
            with pytest.raises(BundleError, match="lacks"):
                import_archive(packed(tmp_path / "bad", lacking), context=there)
    # An object and a manifest that agree, and a record that is of another object.
    other = {**content, "objects/one.o": content["objects/two.o"]}
    files = json.loads(content[MANIFEST])["files"]
    by_path = {entry["path"]: entry for entry in files}
    by_path["objects/one.o"] |= {key: by_path["objects/two.o"][key] for key in ("size", "sha256")}
    with pytest.raises(BundleError, match="does not fit its record"):
        import_archive(packed(tmp_path / "bad", with_manifest(other, files=files)), context=there)
    assert visible(there) == []


def test_a_file_that_would_write_elsewhere_is_refused(
    contexts: tuple[HostContext, HostContext, HostContext], exported: Path, tmp_path: Path
) -> None:
    _, there, _ = contexts
    content = members(exported)
    files = json.loads(content[MANIFEST])["files"]
    for name in (
        "objects/../../../../out.o",
        "/tmp/out.o",
        "../out.o",
        "locks/x",
        "objects",
        "units/../../x",
    ):
        listed = [*files, {"path": name, "size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}]
        bad = packed(tmp_path / "bad", {**with_manifest(content, files=listed), name: b"x"})
        with pytest.raises(BundleError, match="write outside"):
            import_archive(bad, context=there)
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
        info = tarfile.TarInfo("objects/one.o")
        info.type, info.linkname = kind, "/etc/passwd"
        rest = {name: data for name, data in content.items() if name != "objects/one.o"}
        with pytest.raises(BundleError, match="does not list"):
            import_archive(packed(tmp_path / "bad", rest, info), context=there)
    with pytest.raises(BundleError, match="does not list"):
        import_archive(packed(tmp_path / "bad", {**content, "objects/more.o": b"x"}), context=there)
    twice = tarfile.TarInfo("objects/one.o")
    with pytest.raises(BundleError, match="does not list"):
        import_archive(packed(tmp_path / "bad", content, twice), context=there)
    assert visible(there) == []


def test_another_edgepacks_archive_and_other_files_are_refused(
    contexts: tuple[HostContext, HostContext, HostContext], exported: Path, tmp_path: Path
) -> None:
    _, there, _ = contexts
    content = members(exported)
    foreign: list[dict[str, Any]] = [
        {"key": "0" * 40},
        {"sources": {**DIGESTS, "eigen": "0" * 64}},
        {"toolchain": "gcc 13"},
    ]
    for changes in foreign:
        with pytest.raises(BundleError, match="was made by edgepack"):
            import_archive(packed(tmp_path / "bad", with_manifest(content, **changes)), context=there)
    other: list[dict[str, Any]] = [{"format": "a bundle"}, {"schema": 2}]
    for changes in other:
        with pytest.raises(BundleError, match="unsupported format"):
            import_archive(packed(tmp_path / "bad", with_manifest(content, **changes)), context=there)
    senseless: list[dict[str, Any]] = [{"files": 1}, {"files": [{}]}, {"sources": []}, {"kind": []}]
    for changes in senseless:
        with pytest.raises(BundleError):
            import_archive(packed(tmp_path / "bad", with_manifest(content, **changes)), context=there)
    with pytest.raises(BundleError, match="not for this edgepack: no such kind"):
        import_archive(packed(tmp_path / "bad", with_manifest(content, kind="huge")), context=there)
    with pytest.raises(BundleError, match="first member"):
        import_archive(packed(tmp_path / "bad", {"manifest.json": b"{}"}), context=there)
    (tmp_path / "text").write_text("text")
    with pytest.raises(BundleError, match="not an exported kernel archive"):
        import_archive(tmp_path / "text", context=there)
    with pytest.raises(BundleError, match="cannot be read"):
        import_archive(tmp_path / "none", context=there)
    assert visible(there) == []


def test_what_a_killed_import_left_is_swept(
    contexts: tuple[HostContext, HostContext, HostContext], exported: Path
) -> None:
    _, there, _ = contexts
    archive = an_archive(there)
    left = archive.folder.with_name(f".{archive.folder.name}-killed")
    left.mkdir()
    (left / "half").write_text("half")
    import_archive(exported, context=there)
    assert not left.exists()


def test_a_full_disk_leaves_nothing(
    contexts: tuple[HostContext, HostContext, HostContext],
    exported: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import errno

    here, there, _ = contexts

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(exchange, "_copy_checked", full)
    with pytest.raises(DiskFullError):
        import_archive(exported, context=there)
    assert visible(there) == []
    monkeypatch.setattr("edgepack.files.pack._add", full)
    archive = an_archive(here)
    with pytest.raises(DiskFullError):
        export_archive(archive, tmp_path / "out/b", features=(), with_sources=False, context=here)
    assert list((tmp_path / "out").iterdir()) == []


def relisted(content: dict[str, bytes], **changes: bytes | None) -> dict[str, bytes]:
    """With other files, which the manifest lists as they are; ``None`` leaves one out. What lies in folders is named with ``__``."""
    files = {name: data for name, data in content.items() if name != MANIFEST}
    for name, data in changes.items():
        files.pop(name.replace("__", "/"), None)
        if data is not None:
            files[name.replace("__", "/")] = data
    known = {entry["path"]: entry for entry in json.loads(content[MANIFEST])["files"]}
    listed = [
        {
            **known.get(name, {"identity": "x"}),
            "path": name,
            "size": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        for name, data in files.items()
    ]
    return {MANIFEST: with_manifest(content, files=listed)[MANIFEST], **files}


def test_an_import_puts_nothing_in_the_place_of_what_is_sound(
    contexts: tuple[HostContext, HostContext, HostContext], exported: Path, tmp_path: Path
) -> None:
    """A stranger's plan says by which commands the rest is compiled."""
    _, there, _ = contexts
    archive = an_archive(there)
    (plan,) = archive.folder.glob("units-*.json")
    before = plan.read_bytes()
    name = f"units__{plan.name}"
    wrong = before.replace(b"-fPIC", b"-fEVIL")
    import_archive(packed(tmp_path / "bad", relisted(members(exported), **{name: wrong})), context=there)
    assert plan.read_bytes() == before
    plan.write_bytes(before[:-2])
    import_archive(exported, context=there)
    assert plan.read_bytes() == before, "a damaged one is replaced"


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    "changes",
    [
        {"units__objects": b"x"},
        {"units__compile.log": b"x"},
        {"units__overlay__a.h": b"x"},
        {"units__installed": b"x"},
        {"sources__folder__file": b"x"},
        {"build__compile_commands.json": None},
        {"build__compile_commands.json": b"\xff"},
        {"build__compile_commands.json": b"{}"},
        {"build__compile_commands.json": b"[" * 100_000},
        {"build__.configured": None},
        {"objects__one.o.json": b"[" * 100_000},
        {"objects__one.o.json": b"[]"},
        {"objects__one.o.json": None},
        {"objects__folder.o__file": b"x"},
        {"objects__" + "a__" * 1500 + "file": b"x"},
    ],
)
def test_an_archive_that_is_another_than_builds_expect_leaves_nothing(
    changes: dict[str, bytes | None],
    contexts: tuple[HostContext, HostContext, HostContext],
    exported: Path,
    tmp_path: Path,
) -> None:
    _, there, _ = contexts
    with pytest.raises(BundleError) as caught:
        import_archive(packed(tmp_path / "bad", relisted(members(exported), **changes)), context=there)
    assert len(caught.value.message) < 400
    assert visible(there) == []


def test_an_archive_without_a_plan_or_with_one_that_is_none_leaves_nothing(
    contexts: tuple[HostContext, HostContext, HostContext], exported: Path, tmp_path: Path
) -> None:
    _, there, _ = contexts
    content = members(exported)
    (plan,) = (name.replace("/", "__") for name in content if name.startswith("units/"))
    for wrong in (None, b"", b"[]", b'{"one": 1}', b"[" * 100_000):
        with pytest.raises(BundleError):
            import_archive(packed(tmp_path / "bad", relisted(content, **{plan: wrong})), context=there)
        assert visible(there) == []


def test_a_manifest_that_lacks_what_is_said_of_it_is_refused_before_anything_is_written(
    contexts: tuple[HostContext, HostContext, HostContext], exported: Path, tmp_path: Path
) -> None:
    _, there, _ = contexts
    content = members(exported)
    manifest = json.loads(content[MANIFEST])
    texts = [json.dumps({key: manifest[key] for key in manifest if key != left}) for left in sorted(manifest)]
    files = manifest["files"]
    texts += [
        json.dumps({**manifest, "files": [{**files[0], "size": float("inf")}, *files[1:]]}),
        json.dumps(
            {**manifest, "files": [{key: each[key] for key in each if key != "identity"} for each in files]}
        ),
        json.dumps({**manifest, "features": [["x"]]}),
        "[" * 100_000,
        "[]",
        "9" * 5_000,
    ]
    for text in texts:
        bad = packed(tmp_path / "bad", {**content, MANIFEST: text.encode()})
        if set(manifest) - set(json.loads(text) if text.startswith("{") else {}) == {"edgepack"}:
            continue  # who made it is only said where it is refused
        with pytest.raises(BundleError):
            import_archive(bad, context=there)
        assert visible(there) == []
