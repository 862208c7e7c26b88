"""Every path of a freshly frozen program, run on a tiny bundle: what was left out shows here, not on the device."""

import json
import math
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ProofError, ToolError
from edgepack.runner.freeze.sample_bundle import (
    DIMENSION,
    WORDS,
    write_compiled_tokenizer,
    write_golden,
    write_manifest,
    write_sample,
)
from edgepack.runner.frozen.base.signature import LIBRARY as SIGNATURE_LIBRARY
from edgepack.runner.frozen.base.signature import SIGNATURE
from edgepack.verifier.confined.limits import RunLimits
from edgepack.verifier.confined.program import confine
from edgepack.verifier.confined.sandbox import View

TEXTS = ("a cat sat on the mat", "the kitten", "")


def smoke_test(
    program: Path,
    *,
    work: Path,
    tokens_library: Path | None = None,
    signature_library: Path | None = None,
    context: BuildContext,
) -> None:
    """Raises ``ProofError`` when the program in the folder ``program`` does not do what it says.

    With ``tokens_library`` the bundle that it is tried on has a compiled tokenizer, with ``signature_library`` what checks signatures.
    """
    bundle = work / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    shutil.copytree(program, bundle, symlinks=True)
    write_sample(bundle)
    library = next((bundle / "lib").iterdir()).relative_to(bundle).as_posix()
    if tokens_library is not None:
        write_compiled_tokenizer(bundle, tokens_library)
        write_manifest(bundle, library=library)
    if signature_library is not None:
        shutil.copyfile(signature_library, bundle / SIGNATURE_LIBRARY)

    def run(*arguments: str, input: str = "") -> str:
        ended = confine(
            [bundle / "embed", *arguments],
            bundle,
            sandbox=None,
            view=View(),
            work=work,
            input=input,
            progress=context.progress,
        )
        if ended.code or ended.passed or ended.refused:
            why = ended.refused or (RunLimits().in_words(ended.passed) if ended.passed else ended.messages)
            raise ToolError(f"embed {' '.join(arguments)}: {why.strip()}")
        return ended.output

    try:
        vectors = check_vectors(run, work)
        write_golden(bundle, dict(zip(TEXTS, vectors, strict=True)))
        write_manifest(bundle, library=library)
        check_reports(run)
        if signature_library is not None:
            check_signatures(run, bundle)
        check_errors(run, bundle)
    except (ToolError, ValueError, KeyError, TypeError, FileNotFoundError) as error:
        raise ProofError(f"the frozen program does not work: {error}") from error
    shutil.rmtree(bundle)


def check_vectors(run: Callable[..., str], work: Path) -> list[list[float]]:
    """The vectors of ``TEXTS``, the same by every way in and out."""
    vectors = [record["embedding"] for record in json.loads(run(*TEXTS))]
    require(all(len(vector) == DIMENSION for vector in vectors), "vectors have the model's dimension")
    require(all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-5) for vector in vectors), "unit length")
    lines = "".join(f"{text}\n" for text in TEXTS)
    objects = "".join(json.dumps({"id": 7, "body": text}) + "\n" for text in TEXTS)
    from_lines = [json.loads(line) for line in run(input=lines).splitlines()]
    from_objects = [
        json.loads(line) for line in run("--jsonl", "--text-field=body", input=objects).splitlines()
    ]
    require([record["embedding"] for record in from_lines] == vectors, "lines give what arguments give")
    require([record["embedding"] for record in from_objects] == vectors, "objects give what arguments give")
    require(all(record["id"] == 7 for record in from_objects), "objects keep their fields")
    for form in ("raw", "npy"):
        path = work / f"vectors.{form}"
        run("--out", form, "--output", str(path), "--batch-size=2", "--threads=2", input=lines)
        numbers = path.read_bytes()[-4 * DIMENSION * len(TEXTS) :]
        packed = struct.pack(f"<{DIMENSION * len(TEXTS)}f", *(x for vector in vectors for x in vector))
        require(numbers == packed, f"{form} holds the same numbers")
        path.unlink()
    check_types_and_dimensions(run, vectors[0])
    return vectors


def check_types_and_dimensions(run: Callable[..., str], vector: list[float]) -> None:
    """Other numbers, and fewer."""
    for type in ("f16", "int8", "binary"):
        (record,) = json.loads(run("--dtype", type, TEXTS[0]))
        require(len(record["embedding"]) == (1 if type == "binary" else DIMENSION), f"{type} is whole")
    (short,) = json.loads(run("--dim=4", TEXTS[0]))
    length = math.hypot(*vector[:4])
    pairs = zip(short["embedding"], vector[:4], strict=True)
    require(all(math.isclose(x, y / length, abs_tol=1e-5) for x, y in pairs), "--dim shortens")
    (prefixed,) = json.loads(run("--prefix=query", "--max-length=6", "kitten"))
    require(prefixed["embedding"] == json.loads(run("the kitten"))[0]["embedding"], "--prefix goes before")
    require("kitten" in run("--out=table", "the kitten"), "a table shows the text")


def check_reports(run: Callable[..., str]) -> None:
    """What the program says of itself."""
    require("--similarity" in run("--help"), "--help lists the options")
    require("sample" in run("--version"), "--version names the bundle")
    require(json.loads(run("--info", "--json"))["name"] == "sample", "--info --json is the manifest")
    require("sample" in run("--info"), "--info names the bundle")
    require("texts/s in batches" in run("--bench"), "--bench measures")
    run("serve", "--check", "--port=0")
    require("token" in run("serve", "--help"), "serve --help lists the options")
    require("passed" in run("--self-test"), "--self-test passes")
    found = json.loads(run("search", "--json", "kitten", input="a cat\nkitten\n"))
    require(found["nearest"][0]["line"] == 2, "search finds the nearest text")
    require(float(run("--similarity", WORDS[5], WORDS[5])) > 0.999, "a text is similar to itself")


def check_signatures(run: Callable[..., str], bundle: Path) -> None:
    """The library loads, and what is no key is none."""
    signature, key = bundle / SIGNATURE, bundle / "key.pub"
    for file in (signature, key):
        file.write_text("{}")
    expect_failure(lambda: run("--check", "--require-signature", str(key)), "no public key")
    for file in (signature, key):
        file.unlink()


def check_errors(run: Callable[..., str], bundle: Path) -> None:
    """Errors are two lines with the right words, not a traceback."""
    expect_failure(lambda: run("--nonsense"), "unrecognized")
    expect_failure(lambda: run("--jsonl", input='{"text": 1'), "line 1 is not JSON")
    (bundle / "model/model.onnx").write_bytes(b"")
    expect_failure(lambda: run("a cat"), "model/model.onnx is damaged")


def expect_failure(act: Callable[[], str], words: str) -> None:
    try:
        act()
    except ToolError as error:
        message = error.message
    else:
        message = ""
    require(words in message and "Traceback" not in message, f"the program refuses with {words!r}")


def require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"not so: {what}")
