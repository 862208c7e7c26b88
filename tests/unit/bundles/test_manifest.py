"""Opening a bundle notices everything that is not as it was made, and names it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgepack.bundles.manifest import bundle_name, digest, file_entry, open_bundle, write_manifest
from edgepack.errors import BundleError
from edgepack.files import store
from edgepack.records.bundle import Bundle

pytestmark = pytest.mark.tools("gcc")


def edit(bundle: Bundle, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest on disk."""
    path = bundle.directory / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def test_a_whole_bundle_opens(bundle: Bundle) -> None:
    opened = open_bundle(bundle.directory)
    assert opened == bundle
    assert digest(opened) == digest(bundle)
    assert opened.program == bundle.directory / "embed"


def test_the_digest_does_not_depend_on_how_the_manifest_is_written(bundle: Bundle) -> None:
    before = digest(bundle)
    path = bundle.directory / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(manifest.items())), indent=7, ensure_ascii=True))
    assert digest(open_bundle(bundle.directory)) == before


@pytest.mark.parametrize("name", ["model/model.onnx", "embed", "LICENSES/NOTICES.txt", "golden.json"])
def test_one_changed_byte_is_noticed_in_any_file(bundle: Bundle, name: str) -> None:
    path = bundle.directory / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(BundleError, match=rf"{name} is damaged: sha256"):
        open_bundle(bundle.directory)


def test_a_file_cut_short_is_noticed(bundle: Bundle) -> None:
    path = bundle.directory / "model" / "model.onnx"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(BundleError, match=r"model/model\.onnx is damaged: \d+ bytes instead of \d+"):
        open_bundle(bundle.directory)


def test_a_missing_file_is_noticed(bundle: Bundle) -> None:
    (bundle.directory / "model" / "tokenizer.json").unlink()
    with pytest.raises(BundleError, match=r"model/tokenizer\.json is missing"):
        open_bundle(bundle.directory)


def test_a_file_that_nobody_listed_is_noticed(bundle: Bundle) -> None:
    (bundle.directory / "lib" / "libsurprise.so").write_bytes(b"")
    with pytest.raises(BundleError, match=r"lib/libsurprise\.so is not in the manifest"):
        open_bundle(bundle.directory)


def test_a_program_that_lost_its_permission_is_noticed(bundle: Bundle) -> None:
    bundle.program.chmod(0o644)
    with pytest.raises(BundleError, match="embed is no longer executable"):
        open_bundle(bundle.directory)


def test_a_link_led_elsewhere_is_noticed(bundle: Bundle) -> None:
    link = bundle.directory / "_internal" / "data"
    link.unlink()
    link.symlink_to("../manifest.json")
    with pytest.raises(BundleError, match="_internal/data is damaged"):
        open_bundle(bundle.directory)


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("/etc/passwd", "leads out of the bundle"),
        ("../..", "leads out of the bundle"),
        ("data", "leads nowhere"),
        ("none", "leads nowhere"),
    ],
)
def test_a_link_that_the_manifest_lists_leads_to_what_is_in_the_bundle(
    bundle: Bundle, to: str, said: str
) -> None:
    """Else what it leads to would be believed unread: of a link, the manifest holds the name alone."""
    link = bundle.directory / "_internal" / "data"
    link.unlink()
    link.symlink_to(to)
    files = [
        file_entry(link, root=bundle.directory, part=file["part"])
        if file["path"] == "_internal/data"
        else file
        for file in bundle.manifest["files"]
    ]
    write_manifest(bundle.directory, {**bundle.manifest, "files": files})
    with pytest.raises(BundleError, match=said):
        open_bundle(bundle.directory)


def test_no_file_that_the_manifest_lists_lies_behind_a_link(bundle: Bundle, tmp_path: Path) -> None:
    inside = bundle.directory / "_internal"
    (inside / "real").mkdir()
    (inside / "real" / "file").write_text("checked")
    (inside / "by").symlink_to("real")
    paths = (inside / "real" / "file", inside / "by", inside / "by" / "file")
    more = [file_entry(path, root=bundle.directory, part="runner") for path in paths]
    write_manifest(bundle.directory, {**bundle.manifest, "files": [*bundle.manifest["files"], *more]})
    with pytest.raises(BundleError, match="files of the manifest behind it"):
        open_bundle(bundle.directory)


def test_a_file_replaced_by_a_link_to_the_same_bytes_is_noticed(bundle: Bundle, tmp_path: Path) -> None:
    path = bundle.directory / "golden.json"
    path.rename(tmp_path / "golden.json")
    path.symlink_to(tmp_path / "golden.json")
    with pytest.raises(BundleError, match=r"golden\.json is damaged"):
        open_bundle(bundle.directory)


@pytest.mark.parametrize("name", ["embed", "manifest.json", "golden.json"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(bundle: Bundle, name: str) -> None:
    (bundle.directory / name).unlink(missing_ok=True)
    os.mkfifo(bundle.directory / name)
    with pytest.raises(BundleError, match=f"{name}.* is not a file"):
        open_bundle(bundle.directory)


def test_a_file_of_holes_is_not_read(bundle: Bundle) -> None:
    """The manifest, which is a stranger's, too, may say that it has eight terabytes."""
    with (bundle.directory / "golden.json").open("r+b") as stream:
        stream.truncate(1 << 43)
    with pytest.raises(BundleError, match=r"golden\.json is damaged: nearly all of it was never written"):
        open_bundle(bundle.directory)


def test_a_folder_that_is_no_bundle_is_said(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"is not a bundle: there is no manifest\.json") as refused:
        open_bundle(tmp_path)
    assert "name a folder that edgepack bundle made" in str(refused.value.hint)
    with pytest.raises(BundleError, match="there is no file or folder"):
        open_bundle(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"name": "x"}', '{"schema": "1"}', "\udc80"])
def test_a_manifest_that_is_none_is_said(bundle: Bundle, text: str) -> None:
    (bundle.directory / "manifest.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BundleError, match=r"manifest\.json"):
        open_bundle(bundle.directory)


def test_a_newer_schema_is_said(bundle: Bundle) -> None:
    edit(bundle, lambda manifest: manifest.update(schema=2))
    with pytest.raises(BundleError, match="has schema 2, this edgepack reads schema 1"):
        open_bundle(bundle.directory)


@pytest.mark.parametrize("key", ["target", "model", "runtime", "runner", "gate", "files", "golden", "name"])
def test_a_missing_section_is_named(bundle: Bundle, key: str) -> None:
    edit(bundle, lambda manifest: manifest.pop(key))
    with pytest.raises(BundleError, match=f"{key} is missing"):
        open_bundle(bundle.directory)


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "model/../../outside", "manifest.json", ""])
def test_a_file_outside_the_bundle_is_refused(bundle: Bundle, path: str) -> None:
    edit(bundle, lambda manifest: manifest["files"][0].update(path=path))
    with pytest.raises(BundleError, match="outside the bundle"):
        open_bundle(bundle.directory)


@pytest.mark.parametrize(
    ("section", "key"),
    [
        *(("model", key) for key in ("file", "tokenizer", "head", "cpu_file", "pieces")),
        ("runtime", "library"),
        *(("runner", key) for key in ("program", "library", "module")),
    ],
)
@pytest.mark.parametrize("name", ["elsewhere", "/dev/zero", "../embed", 1])
def test_a_part_that_is_not_listed_is_refused(bundle: Bundle, section: str, key: str, name: object) -> None:
    """What is read of a bundle is one of its files: no device, no pipe, nothing of this machine."""
    said = ["embed", name] if key == "pieces" else name
    edit(bundle, lambda manifest: manifest[section].update({key: said}))
    with pytest.raises(BundleError, match=r"does not list|is not what it should be"):
        open_bundle(bundle.directory)


def test_a_piece_that_is_there_twice_is_refused(bundle: Bundle) -> None:
    """A million times a file of a gigabyte would be put together."""
    edit(bundle, lambda manifest: manifest["model"].update({"pieces": ["embed", "embed"]}))
    with pytest.raises(BundleError, match="does not list"):
        open_bundle(bundle.directory)


def test_an_incomplete_entry_is_refused(bundle: Bundle) -> None:
    edit(bundle, lambda manifest: manifest["files"][1].pop("sha256"))
    with pytest.raises(BundleError, match="not complete"):
        open_bundle(bundle.directory)


@pytest.mark.parametrize("key", ["sha256", "path"])
def test_an_entry_prints_no_line_of_its_own(bundle: Bundle, key: str) -> None:
    """What is wrong with an entry is said with its words in it."""
    edit(bundle, lambda manifest: manifest["files"][1].update({key: "/x\nverified ✓ by this machine"}))
    with pytest.raises(BundleError) as caught:
        open_bundle(bundle.directory)
    assert "\n" not in caught.value.message and "✓" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "mode"),
    [("embed", 0o4755), ("golden.json", 0o2644), ("model/model.onnx", 0o666), ("model", 0o777), ("", 0o777), ("golden.json", 0o000)],
)  # fmt: skip
def test_modes_that_let_others_in_are_noticed(bundle: Bundle, name: str, mode: int) -> None:
    (bundle.directory / name).chmod(mode)
    with pytest.raises(BundleError, match=rf"has the mode {mode:04o}|golden\.json cannot be read"):
        open_bundle(bundle.directory)
    (bundle.directory / name).chmod(0o755)
    assert open_bundle(bundle.directory) == bundle


def test_an_empty_folder_is_noticed(bundle: Bundle) -> None:
    (bundle.directory / "lib" / "cache").mkdir()
    with pytest.raises(BundleError, match="lib/cache is not in the manifest"):
        open_bundle(bundle.directory)


def test_one_file_under_many_names_is_noticed(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of 14 MB stood for 6 TB: each name was read."""
    listed = {file["path"]: file for file in bundle.manifest["files"]}
    names = [f"lib/{number}" for number in range(3)]
    for name in names:
        (bundle.directory / name).hardlink_to(bundle.directory / "golden.json")
    same = [{**listed["golden.json"], "path": name} for name in names]
    edit(bundle, lambda manifest: manifest["files"].extend(same))
    assert open_bundle(bundle.directory)
    monkeypatch.setattr(store, "AGAIN", 2 * listed["golden.json"]["size"])
    with pytest.raises(BundleError, match="lib/2 is damaged: many names are of that file"):
        open_bundle(bundle.directory)


def test_a_folder_that_is_a_link_is_noticed(bundle: Bundle, tmp_path: Path) -> None:
    """Its files were those of the manifest, signed, and lay where anybody could write."""
    (bundle.directory / "lib").rename(tmp_path / "elsewhere")
    (bundle.directory / "lib").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BundleError, match="lib is a link, with files of the manifest behind it"):
        open_bundle(bundle.directory)


def test_a_linked_manifest_is_noticed(bundle: Bundle, tmp_path: Path) -> None:
    manifest = bundle.directory / "manifest.json"
    manifest.rename(tmp_path / "elsewhere.json")
    manifest.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(BundleError, match=r"manifest\.json is not a file"):
        open_bundle(bundle.directory)


@pytest.mark.parametrize("content", [b"[" * 200_000, b" " * (17 << 20)], ids=["deep", "long"])
def test_a_manifest_that_costs_too_much_to_read_is_refused(bundle: Bundle, content: bytes) -> None:
    (bundle.directory / "manifest.json").write_bytes(content)
    with pytest.raises(BundleError, match=r"cannot be read|too large for a manifest"):
        open_bundle(bundle.directory)


@pytest.mark.parametrize("name", ["\x1b]0;owned\x07", "line\nfeed", "turned\u202eround"])
def test_a_name_that_cannot_be_shown_is_refused(bundle: Bundle, name: str) -> None:
    edit(bundle, lambda manifest: manifest["files"][0].update(path=name))
    with pytest.raises(BundleError, match="whose name cannot be shown") as caught:
        open_bundle(bundle.directory)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "a/b", "a\\b", "..", ".x", "a\nb", "", "x" * 201])
def test_a_bundle_s_name_is_one_that_a_folder_can_have(bundle: Bundle, name: str) -> None:
    """An archive of it has a folder of that name: `edgepack sign` would vouch for one that is unpacked elsewhere."""
    edit(bundle, lambda manifest: manifest.update(name=name))
    with pytest.raises(BundleError, match="name is not one that a folder can have"):
        open_bundle(bundle.directory)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("org/all-MiniLM-L6-v2", "all-MiniLM-L6-v2-small"),
        ("a b;touch x $(id)", "a-b-touch-x-id--small"),
        ("Ünïcode_1.0+x", "Ünïcode_1.0+x-small"),
        ("%h `id` \\ '\"&|<>*?[]{}~#!", "h-id--small"),
        ("../..", "small"),
        ("-rf", "rf-small"),
    ],
)
def test_no_shell_and_no_unit_reads_a_bundle_s_name_as_more_than_letters(model: str, name: str) -> None:
    """A Debian package's scripts have it, which root runs, and so have the commands that are printed to be copied."""
    assert bundle_name(model, "small") == name


def rewritten(bundle: Bundle, change: Callable[[str], str]) -> None:
    file = bundle.directory / "manifest.json"
    file.write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")


@pytest.mark.parametrize(
    "line",
    [
        '"name": "another",',
        '"target": {"name": "x", "name": "y"},',
        '"x": "\\ud800",',
        '"x": NaN,',
        '"x": -Infinity,',
    ],
)
def test_a_manifest_that_readers_read_otherwise_is_refused(bundle: Bundle, line: str) -> None:
    """The digest is of what Python makes of it: another reader may take the first of two values, or have none for NaN."""
    rewritten(bundle, lambda text: text.replace("{", "{" + line, 1))
    with pytest.raises(BundleError, match="cannot be read"):
        open_bundle(bundle.directory)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("name",), "b\nverified \u2713"),
        (("name",), "\x1b[2J"),
        (("name",), ""),
        (("name",), "b" * 201),
        (("target", "platform"), None),
        (("target", "extra"), [1]),
        (("runtime", "operators"), 5),
        (("runtime", "provider"), "cuda"),
        (("runtime", "provider"), {"libraries": [{}]}),
        (("runtime", "provider"), {"system": [[1]]}),
        (("runtime", "library"), [1]),
        (("runner", "program"), {}),
        (("model", "file"), {}),
        (("model", "tokenizer"), [1]),
        (("runner", "versions"), 5),
        (("model", "set"), [1]),
        (("model", "prefixes"), "x"),
        (("model", "embedder"), ["x"]),
        (("model", "source_files"), 7),
        (("model", "source_files"), [1]),
        (("model", "source_files"), [{"path": "a", "sha256": "b", "size": "1"}]),
        (("model", "source_files"), [{"path": "a", "sha256": "b"}]),
        (("model", "warnings"), None),
        (("model", "warnings"), [1]),
        (("model", "license"), 1),
        (("target", "platform", "glibc"), {"a": 1}),
        (("target", "platform", "glibc"), "new"),
        (("model", "source_files"), [{"path": "a", "sha256": "b", "size": 10**400}]),
        (("target", "platform"), {"os": True}),
        (("model", "max_length"), "256"),
        (("model", "max_length"), 10**18),
        (("model", "normalize"), 1_000_000_000),
        (("visits",), [1]),
        (("visits",), {"cold": 1}),
        (("visits",), {"cold": [[1]]}),
        (("visits",), {"cold": ["nothing"], "warm": []}),
        (("checks",), "all"),
    ],
)
def test_a_section_of_another_kind_is_refused(bundle: Bundle, keys: tuple[str, ...], value: object) -> None:
    manifest = json.loads((bundle.directory / "manifest.json").read_text())
    section = manifest
    for key in keys[:-1]:
        section = section[key]
    section[keys[-1]] = value
    (bundle.directory / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError):
        open_bundle(bundle.directory)


@pytest.mark.parametrize(
    "keys",
    [
        ("target", "name"),
        *(("model", key) for key in ("name", "origin", "dimension", "normalize", "license", "precision")),
        *(("runtime", key) for key in ("version", "kind")),
    ],
    ids=".".join,
)
def test_what_every_bundle_says_is_required(bundle: Bundle, keys: tuple[str, str]) -> None:
    """Reports say it of a stranger's, too."""
    manifest = json.loads((bundle.directory / "manifest.json").read_text())
    section, key = keys
    del manifest[section][key]
    (bundle.directory / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match=rf"{section}\.{key} is missing"):
        open_bundle(bundle.directory)
