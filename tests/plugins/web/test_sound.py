"""A page whose bundle.json or compressed copies say something else than the manifest is not verified: a browser would be sent them."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import brotli
import pytest

from edgepack.errors import VerificationError
from edgepack.plugins.checks import forms_of, require_sound
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle

MODEL = {
    "dimension": 8,
    "max_length": 64,
    "batch_dependent": False,
    "prefixes": {"query": "query: ", "passage": ""},
    "matryoshka": None,
    "pieces": ["assets/model-1.bin"],
    "tokenizer": "assets/tokenizer.table",
}
PAGE: dict[str, Any] = {
    "schema": 1,
    "model": {
        "dimension": 8,
        "maxLength": 64,
        "batchDependent": False,
        "prefixes": MODEL["prefixes"],
        "matryoshka": None,
        "parts": [{"path": "assets/model-1.bin"}],
    },
    "tokenizer": {"kind": "wordpiece", "table": {"path": "assets/tokenizer.table"}},
    "runtimes": [{"name": "engine", "wasm": {"path": "a"}, "relaxed": {"path": "b"}}],
}


def page_in(folder: Path, content: bytes, *, sent: bytes | None = None) -> Bundle:
    """A bundle with this for its bundle.json; hosts that compress send ``sent``."""
    files = {
        "bundle.json": content,
        "bundle.json.gz": gzip.compress(sent or content),
        "bundle.json.br": brotli.compress(sent or content),
    }
    for name, each in files.items():
        (folder / name).write_bytes(each)
    manifest = {"name": "page", "files": [{"path": name} for name in files], "model": MODEL}
    return Bundle(directory=folder, manifest=manifest)


def test_a_page_that_says_what_its_manifest_says_is_sound(tmp_path: Path, context: HostContext) -> None:
    require_sound(page_in(tmp_path, json.dumps(PAGE).encode()), context=context)


def test_a_page_of_many_runtimes_is_refused_before_any_is_run(tmp_path: Path, context: HostContext) -> None:
    page = {**PAGE, "runtimes": PAGE["runtimes"] * 9}
    with pytest.raises(VerificationError, match="lists 9 runtimes, each of which would be run"):
        require_sound(page_in(tmp_path, json.dumps(page).encode()), context=context)


CHANGES: dict[str, Callable[[Any], object]] = {
    "model.prefixes": lambda page: page["model"].update(prefixes={"query": "EVIL: ", "passage": ""}),
    "model.matryoshka": lambda page: page["model"].update(
        matryoshka={"dimensions": [4], "layer_norm": False}
    ),
    "model.maxLength": lambda page: page["model"].update(maxLength=10),
    "model.batchDependent": lambda page: page["model"].update(batchDependent=0),
    "model.parts": lambda page: page["model"].update(parts="model"),
    "model.dimension": lambda page: page.update(model=None),
    "runtimes": lambda page: page.update(runtimes=["engine"]),
    "tokenizer.table.path": lambda page: page.update(tokenizer=[]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_it_says_otherwise_is_refused(name: str, tmp_path: Path, context: HostContext) -> None:
    page = json.loads(json.dumps(PAGE))
    CHANGES[name](page)
    with pytest.raises(
        VerificationError, match=rf"check page of web.*bundle\.json (says {name} |has no list of {name})"
    ):
        require_sound(page_in(tmp_path, json.dumps(page).encode()), context=context)


@pytest.mark.parametrize("content", [b"[]", b"{", b"x" * (5 << 20), b"[" * 100_000])
def test_what_is_no_page_is_refused(content: bytes, tmp_path: Path, context: HostContext) -> None:
    with pytest.raises(VerificationError, match="check page of web"):
        require_sound(page_in(tmp_path, content, sent=b"x"), context=context)


def test_compressed_copies_of_something_else_are_refused(tmp_path: Path, context: HostContext) -> None:
    content = json.dumps(PAGE).encode()
    for sent in (content.replace(b"query: ", b"EVIL!: "), bytes(10**5)):
        bundle = page_in(tmp_path, content, sent=sent)
        with pytest.raises(
            VerificationError, match=r"bundle\.json\.br is no copy.*bundle\.json\.gz is no copy"
        ):
            require_sound(bundle, context=context)


def test_what_other_browsers_take_is_a_form_of_its_own(tmp_path: Path, context: HostContext) -> None:
    runtimes = [*PAGE["runtimes"], {"name": "stock", "wasm": {"path": "c"}}, {"name": "webgpu", "gpu": True}]
    bundle = page_in(tmp_path, json.dumps({**PAGE, "runtimes": runtimes}).encode())
    forms = {
        name: json.loads(files["bundle.json"])["runtimes"]
        for name, files in forms_of(bundle, context=context).items()
    }
    assert forms == {
        "with its runtime 2": [{"name": "stock", "wasm": {"path": "c"}}],
        "without relaxed SIMD": [{"name": "engine", "wasm": {"path": "a"}}],
    }
