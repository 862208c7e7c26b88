"""Deltas: the new bundle to the bit, or two clear lines and the old one."""

import errno
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from tests.support.command import edgepack
from tests.support.signed import key_in, list_files
from tests.support.updates import LARGE, two_bundles

from edgepack.bundles.archive import pack, unpack_bundle
from edgepack.bundles.manifest import SIGNATURE, digest, open_bundle
from edgepack.bundles.place import held_place
from edgepack.errors import BundleError, DiskFullError, EdgepackError, OutputError, SignatureError
from edgepack.files.store import sha256_of
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.signing.signatures import sign_bundle
from edgepack_updates import applying
from edgepack_updates.applying import Wanted, apply_delta
from edgepack_updates.making import make_delta, write_delta
from edgepack_updates.steps import LIST, read_plan

SCRIPT = Path(applying.__file__).parent / "data/apply.sh"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Bundle, Bundle]:
    return two_bundles(tmp_path)


@pytest.fixture
def delta(pair: tuple[Bundle, Bundle], tmp_path: Path, context: HostContext) -> Path:
    made = make_delta(*pair, tmp_path / "members", context=context)
    write_delta(made, tmp_path / "1-to-2.delta")
    assert (tmp_path / "1-to-2.delta").stat().st_size == made.size
    return tmp_path / "1-to-2.delta"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_kept_patched_or_whole_whichever_is_least(
    pair: tuple[Bundle, Bundle], delta: Path, tmp_path: Path, context: HostContext
) -> None:
    with tarfile.open(delta) as tar:
        listed = tar.extractfile(LIST)
        assert listed is not None
        steps = {step.path: step for step in read_plan(listed.read().decode()).steps}
    assert {path: step.how for path, step in steps.items()} == {
        "LICENSES/NOTICES.txt": "keep",
        "LICENSES/new.txt": "whole",
        "LICENSES/words.txt": "keep",
        "embed": "patch",
        "golden.json": "keep",
        "lib/libonnxruntime.so": "keep",
        "lib/libonnxruntime.so.1": "link",
        "manifest.json": "patch",
        "model/model.onnx": "patch",
        "model/tokenizer.bin": "whole",
    }
    assert steps["LICENSES/words.txt"].old == "model/words.txt"
    assert delta.stat().st_size < LARGE / 10
    again = make_delta(*pair, tmp_path / "again", context=context)
    write_delta(again, tmp_path / "again.delta")
    assert (tmp_path / "again.delta").read_bytes() == delta.read_bytes()
    assert set(again.parts) == {"runner", "runtime", "model", "licenses", "golden", "manifest"}
    assert again.parts["runtime"] == 0 < again.parts["model"] < LARGE / 100


def test_the_new_bundle_is_there_to_the_bit_in_the_place_of_the_old(
    pair: tuple[Bundle, Bundle], delta: Path
) -> None:
    old, new = pair
    found = apply_delta(delta, old)
    assert not found.already and found.bundle.directory == old.directory
    assert digest(open_bundle(old.directory)) == digest(new)
    assert names_in(old.directory.parent) == ["small"]
    assert apply_delta(delta, open_bundle(old.directory)).already


def test_a_link_that_leads_to_the_bundle_stays_one(
    pair: tuple[Bundle, Bundle], delta: Path, tmp_path: Path
) -> None:
    (tmp_path / "current").symlink_to(pair[0].directory)
    apply_delta(delta, open_bundle(tmp_path / "current"))
    assert (tmp_path / "current").is_symlink() and names_in(pair[0].directory.parent) == ["small"]
    assert digest(open_bundle(tmp_path / "current")) == digest(pair[1])


def test_beside_the_old_one_nothing_of_it_is_shared(
    pair: tuple[Bundle, Bundle], delta: Path, tmp_path: Path
) -> None:
    old, new = pair
    made = apply_delta(delta, old, output=tmp_path / "deep" / "next").bundle
    assert digest(open_bundle(tmp_path / "deep" / "next")) == digest(new) == digest(made)
    assert digest(open_bundle(old.directory)) == digest(old)
    kept = Path("lib/libonnxruntime.so")
    assert not (made.directory / kept).samefile(old.directory / kept)
    with pytest.raises(OutputError, match="already exists"):
        apply_delta(delta, old, output=tmp_path / "deep" / "next")


def test_an_archive_is_updated_as_well(
    pair: tuple[Bundle, Bundle], delta: Path, tmp_path: Path, context: HostContext
) -> None:
    packed = pack(pair[0], tmp_path / "small.tar.zst", context=context)
    assert packed.archive is not None
    old = open_bundle(unpack_bundle(packed.archive, tmp_path / "unpacked"))
    assert digest(apply_delta(delta, old, output=tmp_path / "next").bundle) == digest(pair[1])


@pytest.mark.tools("sh", "zstd", "sha256sum")
def test_a_device_without_edgepack_applies_it_with_zstd(
    pair: tuple[Bundle, Bundle], delta: Path, tmp_path: Path
) -> None:
    old, new = pair

    def apply(delta: Path, old: Path) -> subprocess.CompletedProcess[str]:
        words = ["sh", str(SCRIPT), str(delta), str(old), str(tmp_path / "next")]
        return subprocess.run(words, capture_output=True, encoding="utf-8", check=False)

    done = apply(delta, old.directory)
    assert (done.returncode, done.stderr) == (0, "")
    assert digest(open_bundle(tmp_path / "next")) == digest(new)
    assert "already exists" in apply(delta, old.directory).stderr
    shutil.rmtree(tmp_path / "next")
    for place, word in ((new.directory, "for another bundle"), (tmp_path, "for another bundle")):
        assert word in apply(delta, place).stderr
    half = tmp_path / "half"
    with tarfile.open(delta) as tar:
        last = tar.getmembers()[-1].offset_data
    for size in (0, 700, 1200, 3000, last):
        half.write_bytes(delta.read_bytes()[:size])
        assert apply(half, old.directory).returncode != 0
        assert not (tmp_path / "next").exists()
    assert [name for name in names_in(tmp_path) if name.startswith("next")] == []


def test_a_signed_bundle_is_signed_after_it(
    pair: tuple[Bundle, Bundle], tmp_path: Path, context: HostContext
) -> None:
    old, new = pair
    key, other = key_in(tmp_path), key_in(tmp_path, "other")
    sign_bundle(new, key)
    write_delta(make_delta(old, new, tmp_path / "members", context=context), tmp_path / "signed.delta")
    with pytest.raises(SignatureError):
        apply_delta(tmp_path / "signed.delta", old, wanted=Wanted(key=other.public))
    assert digest(open_bundle(old.directory)) == digest(old) and names_in(old.directory.parent) == ["small"]
    made = apply_delta(tmp_path / "signed.delta", old, wanted=Wanted(key=key.public)).bundle
    assert (made.directory / "signature.sigstore.json").is_file()
    # And a delta from a signed bundle to one that is not.
    back = two_bundles(tmp_path / "more")[0]
    write_delta(make_delta(made, back, tmp_path / "back", context=context), tmp_path / "back.delta")
    with pytest.raises(SignatureError, match="is not signed"):
        apply_delta(tmp_path / "back.delta", made, wanted=Wanted(key=key.public))
    assert not (
        apply_delta(tmp_path / "back.delta", made).bundle.directory / "signature.sigstore.json"
    ).exists()


def test_a_signature_alone_is_an_update(
    pair: tuple[Bundle, Bundle], tmp_path: Path, context: HostContext
) -> None:
    """No manifest lists it, so that both bundles have the same."""
    old, key = pair[0], key_in(tmp_path)
    new = open_bundle(shutil.copytree(old.directory, tmp_path / "signed/small", symlinks=True))
    sign_bundle(new, key)
    for name, bundles in {"to": (old, new), "from": (new, old)}.items():
        write_delta(make_delta(*bundles, tmp_path / f"{name}-members", context=context), tmp_path / name)
    assert not apply_delta(tmp_path / "to", old, wanted=Wanted(key=key.public)).already
    assert apply_delta(tmp_path / "to", open_bundle(old.directory), wanted=Wanted(key=key.public)).already
    assert not apply_delta(tmp_path / "from", old).already
    assert not (old.directory / SIGNATURE).exists()
    sign_bundle(old, key_in(tmp_path, "other"))
    assert not apply_delta(tmp_path / "to", old, wanted=Wanted(key=key.public)).already


def test_a_delta_for_another_bundle_is_refused(
    pair: tuple[Bundle, Bundle], delta: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(pair[0].directory, other, symlinks=True)
    (other / "model/tokenizer.bin").write_bytes(b"another")
    with pytest.raises(BundleError, match="the delta is for another bundle than sample") as refused:
        apply_delta(delta, open_bundle(list_files(other)))
    assert refused.value.hint and "in between" in refused.value.hint


def test_half_a_delta_and_a_damaged_one_leave_the_old_bundle(
    pair: tuple[Bundle, Bundle], delta: Path
) -> None:
    old, _ = pair
    whole = delta.read_bytes()
    halves = [whole[:size] for size in range(0, len(whole) - 10_300, 997)]
    # One bit of each block of content; what is between the members, and the checks of zstd, may be anything.
    flips = []
    for at in range(LARGE % 512 + 600, len(whole) - 10_300, 512):
        flipped = bytearray(whole)
        flipped[at] ^= 4
        flips.append(bytes(flipped))
    refused = 0
    for content in (*halves, *flips):
        delta.write_bytes(content)
        try:
            apply_delta(delta, old, output=old.directory.with_name("next"))
        except BundleError as error:
            assert error.hint and "\n" not in error.message, error.message
            refused += 1
        else:
            made = open_bundle(old.directory.with_name("next"))
            assert digest(made) == digest(pair[1])
            shutil.rmtree(made.directory)
        assert names_in(old.directory.parent) == ["small"]
    assert refused >= len(halves) + len(flips) // 3
    assert digest(open_bundle(old.directory)) == digest(old)
    for path in (delta.parent, delta.with_name("missing")):
        with pytest.raises(BundleError):
            apply_delta(path, old)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda text: text.replace("edgepack-delta\t1", "edgepack-delta\t2"),
            "not a delta that this edgepack reads",
        ),
        (lambda text: text.replace("\nend\n", "\n"), "cut off"),
        (lambda text: text.replace("\told", "\tx").replace("\nold\t", "\nnew\t"), "between which bundles"),
        (lambda text: text.replace("\tembed\t", "\t../embed\t"), "not valid, for '../embed'"),
        (lambda text: text.replace("\tembed\t", "\t/embed\t"), "not valid, for '/embed'"),
        (lambda text: text.replace("\tlibonnxruntime.so\t-", "\t../../x\t-"), "not valid"),
        (lambda text: text.replace("\tlib/libonnxruntime.so\t-", "\t../x\t-"), "not valid"),
        (
            lambda text: text.replace("\tembed\t", "\tgolden.json\t"),
            "names a file twice, or a file in a file",
        ),
        (lambda text: text.replace("\t0755\t", "\t4755\t"), "not valid"),
        (lambda text: text.replace("whole\t", "merge\t"), "not valid"),
        (lambda text: text.replace("\t0001.zst", "\t../1.zst"), "not valid"),
        (
            lambda text: "\n".join(
                sorted(text.split("\n"), key=lambda row: "old new link".find(row[:3]) % 99)
            ),
            "damaged|not a delta",
        ),
    ],
)
def test_a_list_that_is_not_right_is_refused(delta: Path, change: Callable[[str], str], said: str) -> None:
    with tarfile.open(delta) as tar:
        listed = tar.extractfile(LIST)
        assert listed is not None
        text = listed.read().decode()
    read_plan(text)
    assert change(text) != text
    with pytest.raises(BundleError, match=said):
        read_plan(change(text))


def test_links_come_last_so_that_nothing_is_written_through_one(delta: Path) -> None:
    with tarfile.open(delta) as tar:
        listed = tar.extractfile(LIST)
        assert listed is not None
        *rows, end, _ = listed.read().decode().split("\n")
    assert rows[-1].startswith("link\t")
    with pytest.raises(BundleError, match="links come last"):
        read_plan("\n".join([*rows[:3], rows[-1], *rows[3:-1], end, ""]))


def test_a_full_disk_leaves_the_old_bundle_and_no_other(
    pair: tuple[Bundle, Bundle], delta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = pair

    def full(*asked: object, **more: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(applying, "decompress", full)
    with pytest.raises(DiskFullError) as refused:
        apply_delta(delta, old)
    assert refused.value.hint
    assert names_in(old.directory.parent) == ["small"] and digest(open_bundle(old.directory)) == digest(old)
    monkeypatch.undo()
    assert digest(apply_delta(delta, old).bundle) == digest(new)


def test_where_folders_cannot_be_exchanged_it_says_so(
    pair: tuple[Bundle, Bundle], delta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Older:
        """A C library without renameat2."""

    monkeypatch.setattr("ctypes.CDLL", lambda *asked, **more: Older())
    with pytest.raises(OutputError, match="in one step") as refused:
        apply_delta(delta, pair[0])
    assert refused.value.hint and "--output" in refused.value.hint
    assert names_in(pair[0].directory.parent) == ["small"]


@pytest.mark.slow
@pytest.mark.tools("python")
def test_whatever_it_is_killed_at_there_is_a_whole_bundle(
    delta: Path, pair: tuple[Bundle, Bundle], tmp_path: Path
) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.killed",
            "apply",
            *map(str, (delta, pair[0].directory, tmp_path / "killed")),
        ],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    old, new = (digest(each) for each in pair)
    assert found["first"] == [old] * found["first"].count(old) + [new] * found["first"].count(new)
    assert found["first"].count(old) > 30 < len(found["first"]) and new in found["first"]
    assert set(found["then"]) == {new}
    assert set(map(tuple, found["left"])) == {("small",)}
    assert found["continued"] > 0, "what was made before a kill is used"


def test_too_large_for_a_window_it_is_sent_whole(
    pair: tuple[Bundle, Bundle], tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgepack_updates.zstd.LARGEST_WINDOW", 17)
    made = make_delta(*pair, tmp_path / "members", context=context)
    assert {step.path: step.how for step in made.plan.steps}["model/model.onnx"] == "whole"
    write_delta(made, tmp_path / "whole.delta")
    assert digest(apply_delta(tmp_path / "whole.delta", pair[0]).bundle) == digest(pair[1])


def test_a_file_of_another_name_is_made_of_the_one_with_its_role(
    tmp_path: Path, context: HostContext
) -> None:
    old, new = two_bundles(tmp_path)
    library = new.directory / "lib/libonnxruntime.so"
    content = library.read_bytes() * 1000
    (old.directory / "lib/libonnxruntime.so").write_bytes(content)
    (new.directory / "lib/libonnxruntime.so.1").unlink()
    library.unlink()
    (new.directory / "lib/libonnxruntime.so.9").write_bytes(content + b"one more")
    before = open_bundle(list_files(old.directory))
    after = open_bundle(list_files(new.directory, library="lib/libonnxruntime.so.9"))
    steps = {
        step.path: step for step in make_delta(before, after, tmp_path / "m", context=context).plan.steps
    }
    assert (steps["lib/libonnxruntime.so.9"].how, steps["lib/libonnxruntime.so.9"].old) == (
        "patch",
        "lib/libonnxruntime.so",
    )


def test_errors_are_edgepacks(delta: Path, pair: tuple[Bundle, Bundle]) -> None:
    (pair[0].directory / "embed").write_bytes(b"changed")
    with pytest.raises(EdgepackError, match="embed is damaged"):
        open_bundle(pair[0].directory)


def written(path: Path, members: dict[str, bytes]) -> Path:
    """A tar of these files."""
    with tarfile.open(path, "w:") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def contents_of(delta: Path) -> dict[str, bytes]:
    """The files in a delta."""
    with tarfile.open(delta) as tar:
        return {member.name: (tar.extractfile(member) or io.BytesIO()).read() for member in tar}


OTHERS = [
    (lambda rows: [row for row in rows if "\tmanifest.json\t" not in row], "makes no manifest.json"),
    (lambda rows: [*rows[:-1], rows[3].replace("LICENSES/", "embed/"), rows[-1]], "a file in a file"),
    (lambda rows: [row.replace("\tgolden.json\t-", "\tno.json\t-") for row in rows], "does not have"),
    (lambda rows: [row.replace("\tgolden.json\t-", "\tLICENSES\t-") for row in rows], "does not have"),
    (
        lambda rows: [row.replace("\tgolden.json\t-", "\tembed\t-") for row in rows],
        "is not what is to become",
    ),
    (lambda rows: [row.replace("\tembed\t", "\tem\0bed\t") for row in rows], "not valid"),
    (
        lambda rows: [*rows[:-1], "\t".join(("link", "link", "0" * 64, "1", "z", "z", "-")), rows[-1]],
        "z leads nowhere",
    ),
    (lambda rows: [row.replace("\tembed\t", f"\t{'e' * 256}\t") for row in rows], "not valid"),
    (lambda rows: [row.replace("\tembed\t", f"\t{'e/' * 600}e\t") for row in rows], "not valid"),
    (lambda rows: [row.replace(f"\t{LARGE}\t", f"\t{10**12}\t") for row in rows], "far more than its size"),
    (lambda rows: [row.replace(f"\t{LARGE}\t", "\t²\t") for row in rows], "incomplete"),
    (lambda rows: [*rows[:3], *[rows[3]] * 20_001, rows[-1]], "more than 20,000 files"),
    (
        lambda rows: [
            *rows[:-1],
            *(f"keep\t0644\t{'0' * 64}\t1\t{at}{'/d' * 490}/f\tembed\t-" for at in range(41)),
            rows[-1],
        ],
        "more than 20,000 files and folders",
    ),
]


@pytest.mark.parametrize(("change", "said"), OTHERS)
def test_a_strangers_list_is_refused_in_two_lines(
    pair: tuple[Bundle, Bundle], delta: Path, change: Callable[[list[str]], list[str]], said: str
) -> None:
    """A list that is well formed, and asks for what cannot be."""
    members = contents_of(delta)
    rows = members[LIST].decode().split("\n")[:-1]
    text = "\n".join([*change(rows), ""])
    assert text != "\n".join([*rows, ""])
    written(delta, {**members, LIST: text.encode()})
    for output in (None, pair[0].directory.with_name("next")):
        with pytest.raises(BundleError, match=said) as refused:
            apply_delta(delta, pair[0], output=output)
        assert refused.value.hint
        assert names_in(pair[0].directory.parent) == ["small"]


def test_a_link_behind_a_link_is_made_nowhere(pair: tuple[Bundle, Bundle], delta: Path) -> None:
    """``d/./l`` is a link to the bundle, so that ``d/l/../evil`` is beside it, whatever the letters say."""
    members = contents_of(delta)
    *rows, end, _ = members[LIST].decode().split("\n")
    links = [
        "\t".join(("link", "link", "0" * 64, "1", path, to, "-"))
        for path, to in (("d/./l", ".."), ("d/l/../evil", "embed"))
    ]
    written(delta, {**members, LIST: "\n".join([*rows, *links, end, ""]).encode()})
    with pytest.raises(BundleError, match="damaged"):
        apply_delta(delta, pair[0])
    assert names_in(pair[0].directory.parent) == ["small"]


@pytest.mark.tools("sh", "zstd", "sha256sum")
@pytest.mark.parametrize(
    ("links", "said"),
    [
        ((("d", "OUT"), ("d/evil", "embed")), "is damaged"),
        ((("d/evil", "embed"), ("d", "OUT")), "is damaged"),
        ((("out", "OUT"),), "would lead out of"),
        ((("one", "lib/.."), ("two", "one/../../..")), "would lead out of"),
        ((("kept", "-ftOUT"),), "would lead out of"),
        ((("one", "none/none"),), "would lead out of"),
    ],
)
def test_the_script_makes_no_links_that_lead_out_nor_behind_one(
    pair: tuple[Bundle, Bundle], delta: Path, tmp_path: Path, links: tuple[tuple[str, str], ...], said: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "kept").touch()
    members = contents_of(delta)
    *rows, end, _ = members[LIST].decode().split("\n")
    made = [
        "\t".join(("link", "link", "0" * 64, "1", path, to.replace("OUT", str(out)), "-"))
        for path, to in links
    ]
    written(delta, {**members, LIST: "\n".join([*rows, *made, end, ""]).encode()})
    new = tmp_path / "applied"
    done = subprocess.run(
        ["sh", SCRIPT, delta, pair[0].directory, new], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert said in done.stderr
    assert not new.exists()
    assert names_in(out) == ["kept"] and not (out / "kept").is_symlink()


@pytest.mark.tools("sh", "zstd", "sha256sum")
def test_the_script_reads_no_pipe_and_writes_no_more_than_is_said(
    pair: tuple[Bundle, Bundle], delta: Path, tmp_path: Path
) -> None:
    members, new = contents_of(delta), tmp_path / "applied"
    rows = members[LIST].decode().split("\n")
    bomb = zstandard.compress(bytes(1 << 22))

    def refused(said: str) -> None:
        words = [
            "sh",
            "-c",
            'ulimit -f 2048; sh "$@"',
            "sh",
            *map(str, (SCRIPT, delta, pair[0].directory, new)),
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode != 0 and said in done.stderr
        assert not [name for name in names_in(tmp_path) if name.startswith("applied")]

    with tarfile.open(delta, "w") as tar:
        pipe = tarfile.TarInfo(LIST)
        pipe.type = tarfile.FIFOTYPE
        tar.addfile(pipe)
    refused("is damaged")
    for row, said in (
        ("whole\t0644\t{}\t5\tx\t-\t9999.zst", "is not what it should be"),
        ("keep\t0644\t{}\t5\tx\t../../../dev/zero\t-", "would read outside of"),
        ("whole\t0644\t{}\t999999999999\tx\t-\t9999.zst", "far more than its size"),
        ("whole\t0644\t{}\t5\tx\t-\t../../x.zst", "is damaged"),
        ("whole\t4755\t{}\t5\tx\t-\t9999.zst", "is damaged"),
    ):
        text = "\n".join([*rows[:3], row.format("0" * 64), *rows[3:]])
        written(delta, {**members, LIST: text.encode(), "9999.zst": bomb})
        refused(said)
    long = "/".join(["d" * 250] * 14)
    links = [f"link\tlink\t{'0' * 64}\t1\t{at}/{long}/l\tmanifest.json\t-" for at in range(80)]
    written(delta, {**members, LIST: "\n".join([*rows[:-2], *links, *rows[-2:]]).encode()})
    refused("far more than its size")
    written(delta, {**members, "d/d/d/f": b""})
    refused("is damaged")


@pytest.mark.tools("sh", "zstd", "sha256sum")
def test_a_delta_of_holes_is_refused_before_anything_is_made(
    pair: tuple[Bundle, Bundle], delta: Path, tmp_path: Path
) -> None:
    """A megabyte on the disk stood for a terabyte, of which a hundred times as much might be unpacked."""
    os.truncate(delta, 2 << 30)
    with pytest.raises(BundleError, match="nearly all of it was never written"):
        apply_delta(delta, pair[0])
    done = subprocess.run(
        ["sh", SCRIPT, delta, pair[0].directory, tmp_path / "applied"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and done.stderr == f"error: {delta} is damaged\n"


def test_a_work_folder_of_somebody_elses_is_not_used(
    pair: tuple[Bundle, Bundle], delta: Path, tmp_path: Path
) -> None:
    """Its name can be foreseen: a link of another user's had whatever it leads to emptied."""
    old, new = pair
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    work = old.directory.with_name(
        f".{old.directory.name}-{sha256_of(new.directory / 'manifest.json')[:16]}.update"
    )
    work.symlink_to(precious)
    with pytest.raises(OutputError, match="not a folder that this user alone"):
        apply_delta(delta, old)
    work.unlink()
    work.mkdir()
    work.chmod(0o777)
    with pytest.raises(OutputError, match="not a folder that this user alone"):
        apply_delta(delta, old)
    work.rmdir()
    assert names_in(precious) == ["file"]
    assert apply_delta(delta, old).bundle.manifest == new.manifest


@pytest.mark.slow
def test_a_delta_of_many_files_or_of_other_things_is_refused(
    pair: tuple[Bundle, Bundle], delta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tar is read once, whatever is in it."""
    members = contents_of(delta)
    asked: list[str] = []
    monkeypatch.setattr(tarfile.TarFile, "getmember", lambda tar, name: asked.append(name))
    written(delta, {**members, **{f"{at:05}.zst": b"" for at in range(50_000, 70_001)}})
    with pytest.raises(BundleError, match="more than 20,000 files"):
        apply_delta(delta, pair[0])
    with tarfile.open(written(delta, members), "a:") as tar:
        tar.addfile(tarfile.TarInfo(LIST))
    with pytest.raises(BundleError, match="a file twice"):
        apply_delta(delta, pair[0])
    with tarfile.open(written(delta, members), "a:") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(BundleError, match="no file"):
        apply_delta(delta, pair[0])
    assert asked == []
    assert names_in(pair[0].directory.parent) == ["small"]


def test_a_bundle_of_too_many_files_for_a_delta_is_refused_where_it_is_made(
    pair: tuple[Bundle, Bundle], tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgepack_updates.steps.MOST_FILES", 3)
    with pytest.raises(BundleError, match="holds more than 3 files and folders") as refused:
        write_delta(make_delta(*pair, tmp_path / "members", context=context), tmp_path / "many.delta")
    assert refused.value.hint == "send the bundle whole"
    assert not (tmp_path / "many.delta").exists()


def said_anew(bundle: Bundle, **said: str) -> Bundle:
    """The bundle with another name or version in its manifest."""
    place = bundle.directory / "manifest.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), **said}))
    return open_bundle(bundle.directory)


@pytest.mark.parametrize(
    ("before", "after", "wanted", "refused"),
    [
        ({}, {"name": "other"}, Wanted(), "the delta makes other, not sample"),
        ({}, {"name": "other"}, Wanted(name="other"), None),
        ({}, {}, Wanted(name="other"), "the delta makes sample, not other"),
        ({"version": "1.10"}, {"version": "1.9"}, Wanted(), "version 1.9, older than 1.10"),
        ({"version": "1.10"}, {"version": "1.9"}, Wanted(least_version="1.9"), None),
        ({"version": "1.9"}, {"version": "1.10"}, Wanted(least_version="2"), "version 1.10, older than 2"),
        ({"version": "1.9"}, {"version": "1.9.0"}, Wanted(), None),
        ({"version": "1.9"}, {"version": "beta"}, Wanted(), "no version that can be compared: 'beta'"),
        ({"version": "1.9"}, {"version": ""}, Wanted(), "no version that can be compared"),
        ({"version": ""}, {"version": "1"}, Wanted(), None),
        ({"version": "1"}, {"version": ""}, Wanted(least_version="1"), "no version that can be compared"),
    ],
)
def test_another_bundle_or_an_older_one_of_the_same_sender_is_not_installed(
    before: dict[str, str],
    after: dict[str, str],
    wanted: Wanted,
    refused: str | None,
    tmp_path: Path,
    context: HostContext,
) -> None:
    old, new = two_bundles(tmp_path)
    old, new = said_anew(old, **before), said_anew(new, **after)
    key = key_in(tmp_path)
    sign_bundle(new, key)
    delta = tmp_path / "1-to-2.delta"
    write_delta(make_delta(old, new, tmp_path / "members", context=context), delta)
    if refused is None:
        made = apply_delta(delta, old, wanted=replace(wanted, key=key.public))
        assert digest(open_bundle(old.directory)) == digest(new) == digest(made.bundle)
        return
    with pytest.raises((BundleError, SignatureError), match=refused) as caught:
        apply_delta(delta, old, wanted=replace(wanted, key=key.public))
    assert caught.value.hint
    assert digest(open_bundle(old.directory)) == digest(old)
    assert names_in(old.directory.parent) == ["small"]


def test_one_that_is_the_new_bundle_already_is_held_to_the_same(
    pair: tuple[Bundle, Bundle], delta: Path, tmp_path: Path
) -> None:
    apply_delta(delta, pair[0])
    new = open_bundle(pair[0].directory)
    for wanted in (Wanted(key=key_in(tmp_path).public), Wanted(name="other"), Wanted(least_version="9")):
        with pytest.raises((BundleError, SignatureError)):
            apply_delta(delta, new, wanted=wanted)
    assert apply_delta(delta, new).already


def test_an_update_does_not_remove_that_of_a_bundle_whose_name_begins_alike(
    pair: tuple[Bundle, Bundle], delta: Path
) -> None:
    old, _ = pair
    beside = [f".{name}-{'a' * 16}.update" for name in ("small-min", "small-min-1", "smaller", "small[x]")]
    for name in beside:
        (old.directory.parent / name).mkdir()
    (old.directory.parent / f".small-{'b' * 16}.update").mkdir()
    apply_delta(delta, old)
    assert names_in(old.directory.parent) == sorted([*beside, "small"])


def test_who_waits_for_another_run_is_told_so(delta: Path, pair: tuple[Bundle, Bundle]) -> None:
    """The lock is of an open file: within one process, too."""
    with ExitStack() as other:
        other.enter_context(held_place(pair[0].directory, waiting=lambda: None))
        told: list[str] = []

        def waiting(said: str) -> None:
            told.append(said)
            other.close()

        apply_delta(delta, pair[0], waiting=waiting)
    assert told == [f"another run is putting {pair[0].directory} in its place: waiting until it is done"]


@pytest.mark.tools("python")
def test_the_command_says_what_came(tmp_path: Path, context: HostContext) -> None:
    old, new = two_bundles(tmp_path)
    old, new = said_anew(old, version="1.0"), said_anew(new, name="renamed", version="2.0")
    delta = tmp_path / "1-to-2.delta"
    write_delta(make_delta(old, new, tmp_path / "members", context=context), delta)
    refused = edgepack("apply", str(delta), str(old.directory))
    assert refused.returncode == BundleError.exit_code and refused.stdout == ""
    assert refused.stderr.splitlines() == [
        "error: the delta makes renamed, not sample",
        "hint: if that is wanted: --name renamed",
    ]
    words = ("apply", str(delta), str(old.directory), "--name", "renamed", "--min-version", "1.5")
    assert edgepack(*words).stdout == f"{old.directory}: updated: renamed, version 2.0\n"
    said = json.loads(edgepack(*words, "--json").stdout)
    assert (said["name"], said["version"], said["already"]) == ("renamed", "2.0", True)
    assert "is not a version" in edgepack(*words[:-1], "new").stderr
