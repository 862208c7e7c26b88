"""libembed: the bundle from C and from Python, without a process of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.native import compile_together, compiler
from tests.support.sample_program import write_compiled_sample
from tests.support.signed import key_in

from edgepack import sign
from edgepack.runner.freeze.sample_bundle import write_manifest
from edgepack.runner.native.build import lay_interfaces
from edgepack.runner.native.sources import EXPORTS, library_sources, ort_encoder

pytestmark = pytest.mark.tools("c++", "python", may=("gcc", "cc", "pkg-config"))

EXAMPLE = Path(__file__).with_name("example.c")
TEXTS = ["a cat", "the kitten sat on the mat", "", "a \ufffd cat"]


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample bundle with libembed, its header and its Python module."""
    folder = tmp_path_factory.mktemp("library") / "bundle"
    folder.mkdir()
    write_compiled_sample(folder)
    runtime = next((folder / "lib").iterdir())
    lay_interfaces(folder)
    made = folder.with_name("libembed.so")
    compile_together(
        library_sources(ort_encoder("loaded")), made, "-O0", "-shared", "-fPIC", "-fvisibility=hidden"
    )
    shutil.copy(made, folder / "lib")
    write_manifest(folder, library=f"lib/{runtime.name}")
    return folder


def python(bundle: Path, script: str, *flags: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {str(bundle / 'python')!r}); import edgepack_bundle\n{script}"
    # As it is where nobody has asked Python to keep nothing of what it compiles.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        [sys.executable, *flags, "-c", code],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def vectors(bundle: Path) -> list[list[float]]:
    script = (
        f"import json; print(json.dumps([list(map(float, row)) for row in edgepack_bundle.embed({TEXTS!r})]))"
    )
    done = python(bundle, script)
    assert done.returncode == 0, done.stderr
    rows: list[list[float]] = json.loads(done.stdout)
    return rows


def attempt(call: str, error: str = "EmbedError") -> str:
    """A script that says what a call is refused with."""
    kind = error if error in ("TypeError", "ValueError") else f"edgepack_bundle.{error}"
    return f"try:\n    {call}\nexcept {kind} as error:\n    print(getattr(error, 'code', ''), error)\n"


NO_NUMPY = ("-I", "-S")
ONE = (
    "one, (row,) = e('a cat'), e(['a cat'])\nprint(len(one), list(one) == list(row), len(e('')), len(e([])))"
)
SAID: dict[str, tuple[str, list[str], tuple[str, ...]]] = {
    "an array": (
        "v = e(['a cat', 'mat']); print(type(v).__name__, v.shape, v.dtype)",
        ["ndarray (2, 8) float32"],
        (),
    ),
    "lists without NumPy": ("v = e(['a cat']); print(type(v), len(v[0]))", ["<class 'list'> 8"], NO_NUMPY),
    "one text is one vector": (ONE, ["8 True 8 0"], ()),
    "one text without NumPy": (ONE, ["8 True 8 0"], NO_NUMPY),
    "texts in anything that can be gone through": (
        (
            "import numpy as np\nrows = e(['a cat', 'mat'])\n"
            "for texts in (('a cat', 'mat'), (each for each in ('a cat', 'mat')), np.array(['a cat', 'mat'])):\n"
            "    print((e(texts) == rows).all())\n"
            "none = e([])\nprint(none.shape, none.dtype, e('a cat').shape, e(np.str_('mat')).shape)"
        ),
        ["True"] * 3 + ["(0, 8) float32 (8,) (8,)"],
        (),
    ),
    "what is no text": (
        "".join(
            attempt(f"e({texts})", "TypeError")
            for texts in (
                *("b'a cat'", "bytearray(b'a cat')", "['a cat', b'mat']"),
                *("['a cat', None]", "[['a cat'], ['mat']]", "None"),
            )
        ),
        [
            " embed takes str, not bytes: decode it first",
            " embed takes str, not bytearray: decode it first",
            " embed takes str: texts[1] is of type bytes",
            " embed takes str: texts[1] is of type NoneType",
            " embed takes str: texts[0] is of type list",
            " 'NoneType' object is not iterable",
        ],
        (),
    ),
    # As for the program, the server and other languages.
    "half a character": (
        (
            "a, b = e(['a \\udc00\\ud83d cat', 'a \\ufffd\\ufffd cat']); print((a == b).all())\n"
            "print(B().tokens('a \\ud83d') == B().tokens('a \\ufffd'), B().similarity('a \\ud83d', 'a \\ufffd'))"
        ),
        ["True", "True 1.0"],
        (),
    ),
    "wishes of a call": (
        (
            "import numpy as np\nb = B()\n"
            "print(b.dimension, e('a', dim=4).shape, e('a').shape, (e('cat', prefix='query') == e('the cat')).all())\n"
            "b._rows = lambda texts: np.array([[3, 4], [0, 0]], 'float32')\n"
            "print(b.embed(['a', 'b'], normalize=True).tolist(), b.embed('a').tolist())\n"
            "b._rows = lambda texts: [[3.0, 4.0], [0.0, 0.0]]\n"
            "print(b.embed(['a', 'b'], normalize=True), b.embed('a', normalize=True))\n"
        ),
        [
            "8 (4,) (8,) True",
            "[[0.6000000238418579, 0.800000011920929], [0.0, 0.0]] [3.0, 4.0]",
            "[[0.6, 0.8], [0.0, 0.0]] [0.6, 0.8]",
        ],
        (),
    ),
    "wishes of a bundle, and what is wrong with them": (
        "b = B(dim=4); print(b.dimension, b.embed(['a']).shape); b.close()\n"
        + "".join(attempt(call) for call in ("B(dim=5)", "B(prefix='answer')", "b.embed(['a'])"))
        + "try:\n    B(folder='/nowhere')\nexcept OSError:\n    print('no library')",
        [
            "4 (1, 4)",
            "2 5 dimensions: sample does not support that dimension",
            "2 --prefix answer: sample has no answer prefix",
            "1 the bundle is closed",
            "no library",
        ],
        (),
    ),
    "numbers that C does not have": (
        "b = B()\n"
        + "".join(
            attempt(call, "ValueError")
            for call in (
                *("B(dim=2**64)", "B(max_length=-1)", "B(batch_size=2**31)", "B(threads=2**32 + 1)"),
                *("e('a', dim=2**64 + 4)", "b.chunks('a', 2**64 + 6)", "B(dim=float('nan'))"),
            )
        )
        + "most = B(batch_size=2**31 - 1, dim=8)\n"
        "print((most.embed(['a cat', 'mat']) == e(['a cat', 'mat'])).all())",
        [
            f" {number} is no number of anything"
            for number in (2**64, -1, 2**31, 2**32 + 1, 2**64 + 4, 2**64 + 6, "nan")
        ]
        + ["True"],
        (),
    ),
    "closed while it is used": (
        (
            "import threading\nb, inside, further = B(), threading.Event(), threading.Event()\nreal, done = b._library, []\n"
            "class Slow:\n"
            "    def __getattr__(self, name):\n        return getattr(real, name)\n"
            "    def embed_texts(self, *given):\n"
            "        inside.set()\n        further.wait()\n        done.append('embedded')\n        return real.embed_texts(*given)\n"
            "    def embed_close(self, bundle):\n        done.append('closed')\n        real.embed_close(bundle)\n"
            "b._library = Slow()\n"
            "thread = threading.Thread(target=lambda: done.append(bool((b.embed('a cat') == e('a cat')).all())))\n"
            "thread.start()\ninside.wait()\nb.close()\nb.close()\n"
            + attempt("b.embed('a')")
            + "further.set()\nthread.join()\nprint(sorted(map(str, done)), done.index('embedded') < done.index('closed'))"
        ),
        ["1 the bundle is closed", "['True', 'closed', 'embedded'] True"],
        (),
    ),
    "tokens and similarity": (
        (
            "b = B()\nprint(b.tokens('a cat'), b.tokens(''), len(b.tokens('a ' * 9000)), B(prefix='query').tokens('cat'))\n"
            "one, other = (b.embed(text).astype('float64') for text in ('a cat', 'the kitten sat'))\n"
            "print(abs(b.similarity('a cat', 'the kitten sat') - one @ other / (one @ one * (other @ other)) ** 0.5) < 1e-12)\n"
            + attempt("b.tokens(b'a')", "TypeError")
        ),
        ["[2, 4, 5, 3] [2, 3] 6 [2, 9, 5, 3]", "True", " embed takes str: texts[0] is of type bytes"],
        (),
    ),
    "no scores": (
        "b = B(); print(b.labels)\n" + attempt("b.scores(['a'], query='b')"),
        ["()", "2 sample is an embedding model: it gives no scores"],
        (),
    ),
    "chunks": (
        (
            "b, text = B(), '\u732b a cat. the kitten sat on the mat'\nplaces, rows = b.chunks(text, 6)\n"
            "print([text[a:z] for a, z in places], (rows == e([text[a:z] for a, z in places])).all())\n"
            "print(b.chunks('', 6)[0], b.chunks('a', 6)[1].shape)\n"
            + "".join(attempt(f"b.chunks('a', {asked})") for asked in ("7", "2", "6, late=True"))
            + attempt("b.chunks(b'a', 6)", "TypeError")
        ),
        [
            "['\u732b a cat.', 'the kitten sat on', 'the mat'] True",
            "[(0, 0)] (1, 8)",
            "2 chunks of 7 tokens: 6 at most",
            "2 chunks of 2 tokens leave no room beside 2 of special tokens and prefix",
            "2 this program reads each chunk alone: late chunks require edgepack's engine",
            " embed takes str: texts[0] is of type bytes",
        ],
        (),
    ),
    "chunks without NumPy": (
        "places, rows = B().chunks('a cat sat on the mat', 6); print(places, len(rows), rows[0] == e('a cat sat on'))",
        ["[(0, 12), (13, 20)] 2 True"],
        NO_NUMPY,
    ),
    "many threads": (
        (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "texts = ['a cat sat', 'mat', 'the kitten on the mat']\nalone = e(texts)\n"
            "with ThreadPoolExecutor(8) as pool:\n"
            "    print(all((row == alone).all() for row in pool.map(lambda _: e(texts), range(200))))"
        ),
        ["True"],
        (),
    ),
}
"""What is tried → a script, what it prints, options of Python."""


@pytest.mark.parametrize("what", SAID)
def test_from_python(bundle: Path, what: str) -> None:
    script, lines, flags = SAID[what]
    done = python(bundle, f"B, e = edgepack_bundle.Bundle, edgepack_bundle.embed\n{script}", *flags)
    assert done.stdout.splitlines() == lines, done.stderr


def test_vectors_have_length_one(bundle: Path) -> None:
    assert np.linalg.norm(np.array(vectors(bundle)), axis=1) == pytest.approx(1, abs=1e-5)


def test_an_example_in_c(bundle: Path, tmp_path: Path) -> None:
    gcc = shutil.which("gcc") or shutil.which("cc")
    command = [gcc] if gcc else [*compiler()[:-1], "cc"]
    library = bundle / "lib"
    words = ["-std=c99", "-Wall", "-Werror", "-o", str(tmp_path / "example")]
    found = ["-I" + str(bundle / "include"), f"-L{library}", "-lembed"]
    if shutil.which("pkg-config"):
        asked = ["pkg-config", "--cflags", "--libs", str(library / "pkgconfig/libembed.pc")]
        said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
        assert [os.path.normpath(word[2:]) for word in said[:2]] == [word[2:] for word in found[:2]]
        found = said
    words += [str(EXAMPLE), *found, f"-Wl,-rpath,{library}"]
    subprocess.run([*command, *words], check=True)
    done = subprocess.run([tmp_path / "example", bundle, *TEXTS], capture_output=True, text=True, check=True)
    rows = [[float(number) for number in line.split()] for line in done.stdout.splitlines()]
    assert np.array(rows) == pytest.approx(np.array(vectors(bundle)), abs=1e-6)
    refused = subprocess.run(
        [tmp_path / "example", tmp_path, "a"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 4
    assert "manifest.json" in refused.stderr


def test_the_header_declares_what_is_exported(bundle: Path) -> None:
    header = (bundle / "include/embed.h").read_text()
    assert {
        word.split("(")[0].lstrip("*") for word in header.split() if "embed_" in word and "(" in word
    } >= set(EXPORTS)


@pytest.fixture
def copy(bundle: Path, tmp_path: Path) -> Path:
    """A bundle that a test may damage."""
    return Path(shutil.copytree(bundle, tmp_path / "bundle"))


OPEN_DAMAGED = """
import os
for at in range(0, 600, 7):
    damaged = bytearray(whole)
    damaged[at] ^= 1 << at % 8
    with open(path, "wb") as stream:
        stream.write(damaged)
    try:
        edgepack_bundle.Bundle(folder, check="CHECK")
        print("opened")
    except edgepack_bundle.EmbedError as error:
        print(error.code, error)
"""


@pytest.mark.sample(3)
@pytest.mark.parametrize("check", ["content", "once"])
@pytest.mark.parametrize("name", ["model/model.onnx", "model/tokenizer.bin"])
def test_a_damaged_file_is_a_code_and_not_the_end_of_the_process(copy: Path, name: str, check: str) -> None:
    """Of 150 one-bit flips in the beginning of a model, 27 once ended the process that libembed was in."""
    head = f"folder, path = {str(copy)!r}, {str(copy / name)!r}\nwhole = open(path, 'rb').read()\n"
    done = python(copy, head + OPEN_DAMAGED.replace("CHECK", check))
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert len(said) == 86
    assert set(said) == {f"4 {name} is damaged: its content does not match its SHA-256"}


def test_a_bundle_that_is_not_signed_with_the_key_is_refused(copy: Path, tmp_path: Path) -> None:
    (copy / "embed").write_text("#!/bin/sh\n")
    write_manifest(copy, library=f"lib/{next((copy / 'lib').glob('libonnx*')).name}")
    key_in(tmp_path)
    key_in(tmp_path, "other")
    sign(copy, key=tmp_path / "key.key")
    script = (
        f"folder, model = {str(copy)!r}, {str(copy / 'model/model.onnx')!r}\n"
        f"def key(name):\n    return open({str(tmp_path)!r} + '/' + name).read()\n"
        "def attempt(public_key):\n"
        "    try:\n        edgepack_bundle.Bundle(folder, public_key=public_key).embed('a cat'); print('right')\n"
        "    except edgepack_bundle.EmbedError as error:\n        print(error.code, error)\n"
        "attempt(key('key.pub'))\nattempt(key('other.pub'))\nattempt(key('key.key'))\nattempt('none')\nattempt('')\n"
        "open(model, 'ab').write(b'x')\nattempt(key('key.pub'))\n"
    )
    done = python(copy, script)
    assert done.stdout.splitlines() == [
        "right",
        "4 the bundle is not signed as it has to be: its signature was made with another key, or of something else",
        "2 the key is no public key of the curve P-256 in PEM",
        "2 the key is no public key of the curve P-256 in PEM",
        "2 the key is no public key of the curve P-256 in PEM",
        "4 model/model.onnx is damaged: " + done.stdout.rpartition("damaged: ")[2].strip(),
    ], done.stderr


@pytest.mark.parametrize("kind", ["a device", "a pipe", "holes", "values"])
def test_a_manifest_without_end_is_refused_before_its_signature(
    copy: Path, tmp_path: Path, kind: str
) -> None:
    """It took all memory of the host's process, or held it."""
    key_in(tmp_path)
    manifest = copy / "manifest.json"
    manifest.unlink()
    if kind == "a device":
        manifest.symlink_to("/dev/zero")
    elif kind == "a pipe":
        os.mkfifo(manifest)
    else:
        manifest.write_text("[" + "0," * (6 << 20) + "0]" if kind == "values" else "")
        os.truncate(manifest, manifest.stat().st_size or 1 << 40)
    script = (
        "import resource, signal\nsignal.alarm(60)\nresource.setrlimit(resource.RLIMIT_DATA, (500 << 20,) * 2)\n"
        f"try:\n    edgepack_bundle.Bundle({str(copy)!r}, public_key=open({str(tmp_path / 'key.pub')!r}).read())\n"
        "except edgepack_bundle.EmbedError as error:\n    print(error.code, error)"
    )
    done = python(copy, script)
    words = "is damaged: too many values" if kind == "values" else "cannot read"
    assert done.stdout.startswith("4 ") and words in done.stdout, (done.returncode, done.stderr)


def test_a_file_is_read_again_only_where_it_changed(copy: Path) -> None:
    """``once`` knows a file by inode, size and times; ``size`` looks at no content."""
    script = (
        f"import os\nfolder, path = {str(copy)!r}, {str(copy / 'model/tokenizer.bin')!r}\n"
        "edgepack_bundle.Bundle(folder, check='once').close()\n"
        "edgepack_bundle.Bundle(folder, check='once').close()\n"
        "with open(path, 'r+b') as stream:\n    stream.seek(-1, 2); stream.write(b'x')\n"
        "for check in ('once', 'content', 'size'):\n"
        "    try:\n        edgepack_bundle.Bundle(folder, check=check)\n"
        "    except edgepack_bundle.EmbedError as error:\n        print(check, error)"
    )
    done = python(copy, script)
    where = copy / "model/tokenizer.bin"
    assert done.stdout.splitlines() == [
        "once model/tokenizer.bin is damaged: its content does not match its SHA-256",
        "content model/tokenizer.bin is damaged: its content does not match its SHA-256",
        f"size {where} is damaged: it is not the tokenizer that was made",
    ], done.stderr


OTHER_RELEASE = """\
static const void *table[200];
static const void *api(unsigned version) { return table; }
static const char *version(void) { return "9.9.9"; }
static const struct { const void *(*api)(unsigned); const char *(*version)(void); } base = {api, version};
const void *OrtGetApiBase(void) { return &base; }
"""


def test_two_releases_in_one_process_are_refused(bundle: Path, copy: Path, tmp_path: Path) -> None:
    """One of the same release is taken: its library is the one that runs."""
    (tmp_path / "other.c").write_text(OTHER_RELEASE)
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        pytest.skip("no C compiler")
    other = tmp_path / "other"
    shutil.copytree(bundle, other)
    library = next((other / "lib").glob("libonnxruntime*"))
    subprocess.run([gcc, "-shared", "-fPIC", "-o", library, tmp_path / "other.c"], check=True)
    for folder in (copy, other):
        # One file: a bundle's own libembed is another to the loader, and knows nothing of this one's runtime.
        (folder / "lib/libembed.so").unlink()
        (folder / "lib/libembed.so").hardlink_to(bundle / "lib/libembed.so")
    write_manifest(other, library=f"lib/{library.name}")
    script = (
        f"first = edgepack_bundle.Bundle({str(bundle)!r})\n"
        f"second = edgepack_bundle.Bundle({str(copy)!r})\n"
        "print((first.embed(['a cat']) == second.embed(['a cat'])).all())\n"
        f"try:\n    edgepack_bundle.Bundle({str(other)!r}).embed(['a cat'])\n"
        "except edgepack_bundle.EmbedError as error:\n    print(error.code, error)"
    )
    done = python(bundle, script)
    version = library.name.partition(".so.")[2]
    assert done.stdout.splitlines() == [
        "True",
        f"5 this process runs ONNX Runtime {version} of another bundle, this bundle's is 9.9.9",
    ], done.stderr
