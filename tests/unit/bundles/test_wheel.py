"""Wheels: what the specification asks of the file, and the module that is in it, on a program that stands for the bundle's."""

import base64
import csv
import hashlib
import io
import json
import shutil
import stat
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import Metadata
from packaging.tags import Tag, android_platforms, compatible_tags
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from edgepack.bundles.archive import unpack_bundle
from edgepack.bundles.manifest import digest, open_bundle
from edgepack.errors import UsageError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.target import ModelOptions, Platform, Target
from edgepack_wheel.package import create_packager

pytestmark = pytest.mark.tools("python", may=("gcc",))

MODULE = Path(__file__).parents[3] / "plugins/edgepack_wheel/module"
INFO = "tiny_model-1.2.0.dist-info"
PROGRAM = """#!{python}
import json, os, sys, time
flags = sys.argv[1:]
if "--dim" in flags:
    sys.exit(print("error: 7 dimensions: no\\nhint: leave it out", file=sys.stderr) or 2)
for line in sys.stdin:
    asked = json.loads(line)
    if asked["text"] == "die":
        os.kill(os.getpid(), 9)
    if asked["text"] == "broken":
        sys.exit(print("error: model.ort is damaged", file=sys.stderr) or 4)
    if asked["text"].startswith("says"):
        print(asked["text"], file=sys.stderr, flush=True)
    if asked["text"] == "pid":
        asked["text"] = " " * os.getpid()
    print(json.dumps({{"id": asked["id"], "embedding": [len(asked["text"]), 0.5] + [0.25] * 500}}), flush=True)
"""


STATIC = b"\x7fELF\x02\x01\x01" + bytes(9)
STATIC += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 0, 0, 64, 56, 0, 64, 0, 0)
"""An ELF file's header, and nothing after it."""


def target(version: str = "1.2.0", own: Mapping[str, Any] | None = None, **platform: str) -> Target:
    device = Platform(**{"os": "linux", "arch": "x86_64", **platform})  # type: ignore[arg-type]
    given = Target(name="tiny", summary="", builder="linux", platform=device, model=ModelOptions())
    return replace(given, version=version, extra={"wheel": own} if own else {})


def made(bundle: Bundle, folder: Path, context: HostContext, **own: Any) -> Path:
    packager = create_packager(target(own=own))
    file = folder / packager.file_name(bundle)
    packager.pack(bundle, file, context=context)
    return file


def changed(bundle: Bundle, section: str, **values: Any) -> Bundle:
    manifest = bundle.manifest
    return replace(bundle, manifest={**manifest, section: {**manifest[section], **values}})


def test_the_wheel_holds_the_bundle_as_it_is(native: Bundle, context: HostContext, tmp_path: Path) -> None:
    file = made(native, tmp_path, context)
    name, version, _, tags = parse_wheel_filename(file.name)
    assert (str(name), str(version), set(tags)) == (
        "tiny-model",
        "1.2.0",
        {Tag("py3", "none", "manylinux_2_99_x86_64")},
    )
    assert digest(open_bundle(unpack_bundle(file, tmp_path / "inside"))) == digest(native)


@pytest.mark.parametrize("name", ["org/python3", "Pip", "numpy", "json", "sub-process"])
def test_a_model_called_as_something_of_pythons_is_no_wheel_unless_it_is_named(
    name: str, native: Bundle
) -> None:
    """Installed, it replaced the environment's interpreter."""
    bundle = changed(native, "model", name=name)
    if name == "sub-process":
        assert create_packager(target()).file_name(bundle).startswith("sub_process-")
        return
    with pytest.raises(UsageError, match="would replace"):
        create_packager(target()).file_name(bundle)
    named = create_packager(target(own={"name": "acme-embeddings"}))
    assert named.file_name(bundle).startswith("acme_embeddings-")


@pytest.mark.parametrize(
    ("static", "tags"),
    [(True, {"manylinux_2_17_x86_64", "musllinux_1_1_x86_64"}), (False, {"musllinux_1_2_x86_64"})],
)
def test_a_static_program_is_for_glibc_and_musl(
    native: Bundle, context: HostContext, tmp_path: Path, static: bool, tags: set[str]
) -> None:
    device = {"os": "linux", "arch": "x86_64", "glibc": None, "libc": "musl"}
    bundle = changed(native, "target", platform=device)
    if static:
        bundle.program.write_bytes(STATIC)
    file = made(bundle, tmp_path, context)
    *_, named = parse_wheel_filename(file.name)
    with zipfile.ZipFile(file) as wheel:
        said = wheel.read(f"{INFO}/WHEEL").decode()
    assert {tag.platform for tag in named} == tags
    assert {line.split("-")[-1] for line in said.splitlines() if line.startswith("Tag: ")} == tags


@pytest.mark.parametrize(("arch", "abi"), [("aarch64", "arm64_v8a"), ("x86_64", "x86_64")])
def test_a_wheel_for_android_has_its_tag_beside_that_of_linux(
    native: Bundle, context: HostContext, tmp_path: Path, arch: str, abi: str
) -> None:
    asked = replace(target(own={"android": 24}, arch=arch), builder="engine", options={"library": True})
    bundle = changed(native, "target", platform={"os": "linux", "arch": arch, "glibc": "2.28"})
    packager = create_packager(asked)
    file = tmp_path / packager.file_name(bundle)
    packager.pack(bundle, file, context=context)
    *_, named = parse_wheel_filename(file.name)
    assert {tag.platform for tag in named} == {f"manylinux_2_28_{arch}", f"android_24_{abi}"}
    with zipfile.ZipFile(file) as wheel:
        said = {line.removeprefix("Tag: ") for line in wheel.read(f"{INFO}/WHEEL").decode().splitlines()}
    assert set(map(str, named)) <= said

    def taken_by(api: int) -> bool:
        """Whether a phone's Python of this API takes it."""
        platforms = list(android_platforms(api, abi))
        return bool(named & set(compatible_tags((3, 13), platforms=platforms)))

    assert taken_by(24)
    assert taken_by(35)
    assert not taken_by(23)


@pytest.mark.parametrize(
    ("own", "changes", "words"),
    [
        ({"android": "24"}, {}, "android is '24'"),
        ({"android": True}, {}, "android is True"),
        ({"android": 20}, {}, "android is 20"),
        ({"android": 24}, {"builder": "linux"}, "requires a libembed that needs no C library"),
        ({"android": 24}, {"options": {}}, "requires a libembed that needs no C library"),
        (
            {"android": 24},
            {"platform": Platform(os="linux", arch="riscv64")},
            "requires a libembed that needs no C library",
        ),
    ],
)
def test_what_no_wheel_for_android_is_made_of(
    own: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    asked = replace(target(own=own), builder="engine", options={"library": True})
    with pytest.raises(UsageError, match=words):
        create_packager(replace(asked, **changes))


def test_the_same_bundle_gives_the_same_wheel(native: Bundle, context: HostContext, tmp_path: Path) -> None:
    first = made(native, tmp_path, context).read_bytes()
    assert made(native, tmp_path, context).read_bytes() == first


def test_record_has_every_file_by_its_content(native: Bundle, context: HostContext, tmp_path: Path) -> None:
    with zipfile.ZipFile(made(native, tmp_path, context)) as wheel:
        rows = list(csv.reader(io.StringIO(wheel.read(f"{INFO}/RECORD").decode())))
        assert [row[0] for row in rows] == wheel.namelist()
        for path, encoded, size in rows[:-1]:
            content = wheel.read(path)
            found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (encoded, size) == (f"sha256={found}", str(len(content)))
        assert rows[-1] == [f"{INFO}/RECORD", "", ""]


def test_the_metadata_are_valid(native: Bundle, context: HostContext, tmp_path: Path) -> None:
    with zipfile.ZipFile(made(native, tmp_path, context)) as wheel:
        metadata = Metadata.from_email(wheel.read(f"{INFO}/METADATA"), validate=True)
        names = set(wheel.namelist())
        commands = wheel.read(f"{INFO}/entry_points.txt").decode()
        modes = {each.filename: each.external_attr >> 16 for each in wheel.infolist()}
    assert (metadata.name, str(metadata.version), str(metadata.requires_python)) == (
        "tiny-model",
        "1.2.0",
        ">=3.9",
    )
    assert metadata.requires_dist is None
    assert "from tiny_model import encode" in str(metadata.description)
    assert metadata.license_files
    assert {f"{INFO}/licenses/{each}" for each in metadata.license_files} <= names
    assert f"{INFO}/sboms/sbom.cdx.json" in names
    assert commands == "[console_scripts]\ntiny-model = tiny_model.__main__:main\n"
    assert modes["tiny_model/bundle/embed"] == stat.S_IFREG | 0o755
    assert modes["tiny_model/bundle/manifest.json"] == stat.S_IFREG | 0o644


@pytest.mark.parametrize(
    ("name", "file_name"),
    [
        ("org/BGE small_en v1.5", "bge_small_en_v1_5-"),
        ("3-small", "_3_small-"),
        ("class", "_class-"),
    ],
)
def test_a_module_is_called_as_its_model(
    native: Bundle, context: HostContext, tmp_path: Path, name: str, file_name: str
) -> None:
    assert made(changed(native, "model", name=name), tmp_path, context).name.startswith(file_name)


def test_the_target_may_name_it(native: Bundle, context: HostContext, tmp_path: Path) -> None:
    file = made(native, tmp_path, context, name="acme-embeddings")
    assert file.name.startswith("acme_embeddings-1.2.0-")
    with zipfile.ZipFile(file) as wheel:
        assert "acme_embeddings/bundle/manifest.json" in wheel.namelist()
        metadata = wheel.read("acme_embeddings-1.2.0.dist-info/METADATA").decode()
    assert "\nName: acme-embeddings\n" in metadata
    assert "from acme_embeddings import encode" in metadata


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"name": "Acme_Embeddings"}, "says 'Acme_Embeddings'"),
        ({"name": 5}, "says 5"),
        ({"module": "x"}, "says module"),
    ],
)
def test_what_the_table_cannot_say(own: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        create_packager(target(own=own))


@pytest.mark.parametrize(
    ("platform", "version", "words"),
    [
        ({"os": "web", "arch": "wasm32"}, "1.0", "a bundle for web on wasm32 is no wheel"),
        ({"arch": "s390x"}, "1.0", "a bundle for linux on s390x is no wheel"),
        ({}, "v1", "'v1' is not a valid version of a wheel"),
        ({}, "1.0-1", "'1.0-1' is not a valid version of a wheel"),
        ({}, "1.01", "'1.01' is not a valid version of a wheel"),
    ],
)
def test_what_cannot_be_a_wheel_is_said_of_the_target(
    platform: dict[str, str], version: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        create_packager(target(version, None, **platform))


@pytest.mark.parametrize("version", ["0", "1.2.0", "2026.11", "1.0a1", "1.0rc2.post3.dev4"])
def test_versions_that_indexes_take(version: str) -> None:
    assert str(Version(version)) == version
    create_packager(target(version))


def test_links_and_programs_that_read_to_the_end_are_refused(
    bundle: Bundle, native: Bundle, context: HostContext, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="kind 'tables'"):
        made(changed(native, "runner", kind="tables"), tmp_path, context)
    with pytest.raises(UsageError, match="no symbolic links, this bundle does: _internal/data"):
        made(bundle, tmp_path, context)


Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run lines of Python that have ``encode`` of a package with a small program; what they print."""
    package = tmp_path / "site" / "tiny"
    shutil.copytree(MODULE, package)
    (package / "bundle").mkdir()
    (package / "bundle/manifest.json").write_text(json.dumps({"runner": {"program": "embed"}}))
    program = package / "bundle/embed"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)

    def run(code: str, *, rc: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", "from tiny import encode, EmbedError\n" + code],
            cwd=tmp_path / "site",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == rc, done.stderr
        assert rc or not done.stderr, done.stderr
        return done.stdout

    return run


def test_one_text_is_a_vector_and_several_are_several(run: Run) -> None:
    out = run(
        "print(encode('four')[:2], [v[:2] for v in encode(t for t in ('', 'a'))], encode([]))\n"
        "print(encode('\\n\\0\\ud800')[0], encode(['x'], batch_size=3, threads=1, max_length=5)[0][0])"
    )
    assert out == "[4, 0.5] [[0, 0.5], [1, 0.5]] []\n3 1\n"


def test_more_than_the_pipes_hold_goes_both_ways(run: Run) -> None:
    assert run("print(sum(v[0] for v in encode(['x' * 1000] * 3000)))") == "3000000\n"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("encode(5)", "TypeError encode takes a str or several, not what is of type int"),
        ("encode(b'x')", "TypeError encode takes a str or several, not what is of type bytes"),
        ("encode(['a', None])", "TypeError texts[1] is of type NoneType, not str"),
        ("encode('a', batch_size='2')", "TypeError batch_size is of type str, not int"),
        ("encode('a', prefix=2)", "TypeError prefix is of type int, not str"),
        ("encode('a', threads=0)", "ValueError threads is 0, not a number from 1 to 65535"),
        ("encode('a', dim=7)", "ValueError 7 dimensions: no; leave it out"),
        ("encode('broken')", "EmbedError model.ort is damaged"),
        ("encode('die')", "EmbedError the bundle's program was ended by signal 9"),
    ],
)
def test_what_goes_wrong_is_an_exception_and_the_next_call_is_answered(
    run: Run, call: str, error: str
) -> None:
    out = run(
        f"try:\n    {call}\nexcept Exception as error:\n    print(type(error).__name__, error)\nprint(encode('ab')[0])"
    )
    assert out == f"{error}\n2\n"


def test_what_the_program_says_meanwhile_is_passed_on(run: Run) -> None:
    """Nobody read it: after 64 KiB the program waited for room, and all threads for the program."""
    out = run(
        "import contextlib, io\nwith contextlib.redirect_stderr(io.StringIO()) as said:\n"
        "    for _ in range(5):\n        encode(['says' + 'x' * 995] * 100)\n"
        "try:\n    encode(['says so', 'broken'])\nexcept EmbedError as error:\n    print(error)\n"
        "print(len(said.getvalue()), encode('ab')[0])"
    )
    assert out == "model.ort is damaged\n500000 2\n"


def test_nobody_has_to_read_what_the_program_says(run: Run) -> None:
    out = run("import sys\nsys.stderr.close()\nprint(encode(['says so', 'ab'])[1][0])\nsys.stderr = None")
    assert out == "2\n"


def test_the_program_stays_and_is_started_again_when_it_was_killed(run: Run) -> None:
    out = run(
        "import os, signal, time\nfirst = encode('pid')[0]\nprint(encode('pid')[0] == first)\n"
        "os.kill(first, signal.SIGKILL)\ntime.sleep(0.1)\nprint(encode('pid')[0] not in (first, 0))"
    )
    assert out == "True\nTrue\n"


def test_threads_share_it(run: Run) -> None:
    out = run(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    print(all(v[0] == n for n, v in enumerate(pool.map(encode, ['x' * n for n in range(200)]))))\n"
        "    print(len({v[0] for v in pool.map(encode, ['pid'] * 20)}))"
    )
    assert out == "True\n1\n"


def test_a_forked_process_has_a_program_of_its_own(run: Run) -> None:
    out = run(
        "import os\nown = encode('pid')[0]\nchild = os.fork()\n"
        "if not child:\n    os._exit(0 if encode('pid')[0] != own and encode('abc')[0] == 3 else 1)\n"
        "print(os.waitpid(child, 0)[1], encode('pid')[0] == own)"
    )
    assert out == "0 True\n"


@pytest.mark.parametrize("end", ["", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_it_ends_with_its_process(run: Run, end: str) -> None:
    out = run(f"import os\nprint(encode('pid')[0], flush=True)\n{end}", rc=-9 if "kill" in end else 0)
    place = Path("/proc") / out.strip()
    for _ in range(1000):
        # It may be a zombie of whoever adopted it.
        if not place.exists() or "zombie" in (place / "status").read_text():
            return
    subprocess.run([sys.executable, "-c", "import time; time.sleep(2)"], check=True)
    assert not place.exists() or "zombie" in (place / "status").read_text()


def test_an_interrupted_question_is_not_answered_later(run: Run) -> None:
    out = run(
        "import signal\nencode('warm')\n"
        "def stop(*_):\n    raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGALRM, stop)\nsignal.setitimer(signal.ITIMER_REAL, 0.02)\n"
        "try:\n    encode(['x' * 1000] * 20000)\n    print('too quick')\nexcept KeyboardInterrupt:\n    print('stopped')\n"
        "print(encode('ab')[0])"
    )
    assert out == "stopped\n2\n"
