"""The JSON files of a model folder, read and checked."""

import json
import os
import shlex
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

from edgepack.errors import ModelError, UnsupportedModelError

EDITED = "the file is damaged or was edited; fetch the model again"
"""The hint for a file of a model that says what cannot be."""
LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def read_json(path: Path) -> Any:
    """Content of a JSON file. Raises ``ModelError`` that names the file."""
    content = read_bytes(path, most=LONGEST if path.name == TOKENIZER else MOST)
    try:
        return json.loads(content)
    except ValueError as error:
        raise ModelError(
            f"{path.name} is not valid JSON: {error}", hint="the file is damaged; fetch the model again"
        ) from error
    except RecursionError as error:
        raise ModelError(f"{path.name} is nested too deeply", hint=EDITED) from error


def read_object(path: Path) -> Mapping[str, Any]:
    """Reads a file that must hold a JSON object."""
    return require_object(read_json(path), path.name)


def require_object(document: Any, name: str) -> Mapping[str, Any]:
    """The document itself; raise ``ModelError`` when it is no JSON object."""
    if not isinstance(document, dict):
        raise ModelError(f"{name} holds a {type(document).__name__}, not a JSON object", hint=EDITED)
    return document


def read_bytes(path: Path, *, most: int) -> bytes:
    """A small file's content. Raises ``ModelError`` for one of more than ``most`` bytes."""
    require_content(path)
    try:
        if path.stat().st_size > most:
            raise ModelError(f"{path.name} has more than {most >> 20} MiB", hint=EDITED)
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


MOST = 4 << 20
"""Bytes of a document, of which Python makes some thirty times as many; the largest are Gemma's tokens with their flags, 1.2 MB."""
TOKENIZER = "tokenizer.json"
LONGEST = 64 << 20
"""Bytes of a tokenizer; those of 262,144 tokens have 33 MB."""


CARD = "README.md"
LEGAL = ("LICENSE*", "LICENCE*", "NOTICE*", "COPYING*")
"""Patterns of the files that go with a model wherever it goes, as they are."""


def require_own(directory: Path, patterns: Iterable[str]) -> None:
    """Raise ``ModelError`` for a file that a link leads to elsewhere: git and tar keep links, and a model's author may have anybody's file
    published by one. The cache of Hugging Face's client has links, too, to blobs beside.

    Hidden files are not the model's: git's own settings, which lie in each clone, may have passwords.
    """
    root = Path(os.path.realpath(directory))
    for path in sorted({path for pattern in patterns for path in directory.glob(pattern)}):
        name = path.relative_to(directory)
        real = Path(os.path.realpath(path))
        cached = real.parent.name == "blobs" and real.parent.parent.name.startswith("models--")
        inside = real.is_relative_to(root) and _is_laid_out(real.relative_to(root))
        if not (is_hidden(name) or inside or cached):
            raise ModelError(
                f"{name.as_posix()} of the model leads out of its folder, to {real}",
                hint="if that is what the model has to hold, put a copy in its place: "
                + shlex.join(("cp", "--remove-destination", str(real), str(path))),
            )


def _is_laid_out(path: PurePath) -> bool:
    """Whether a file is the model's: not hidden, but where Kubernetes (``..data``) and git-annex keep what their links lead to."""
    by_others = path.as_posix().startswith("..") or path.parts[:3] == (".git", "annex", "objects")
    return by_others or not is_hidden(path)


def is_hidden(path: PurePath) -> bool:
    """Whether a path within a model's folder is of a hidden file, or of one in a hidden folder."""
    return any(part.startswith(".") for part in path.parts)


def most_of(name: str) -> int | None:
    """Bytes that a document of a model may have; ``None`` for weights."""
    return LONGEST if name.endswith((".json", ".txt", ".md", ".model")) else None


def require_content(path: Path) -> None:
    """Raise ``ModelError`` when a file is empty, unreadable, the kernel's, or only git-lfs's pointer to what it should be."""
    real = os.path.realpath(path)
    if real.startswith(("/proc/", "/sys/", "/dev/")) and not real.startswith("/dev/shm/"):
        raise ModelError(f"{path.name} is a link to {real}, no file of a model", hint=EDITED)
    try:
        with path.open("rb") as stream:
            start = stream.read(len(LFS_POINTER))
    except OSError as error:
        raise _unreadable(path, error) from error
    if not start:
        raise ModelError(f"{path.name} is empty", hint="fetch the model again")
    if start == LFS_POINTER:
        raise ModelError(
            f"{path.name} is a git-lfs pointer, not the file itself",
            hint="run `git lfs install && git lfs pull` in the model's folder",
        )


LARGEST = 1e38
"""A number of float32's, as graphs have them."""
LARGEST_ID = 2**31 - 1


def size_of(
    config: Mapping[str, Any], key: str, default: int | None = None, *, where: str = "config.json"
) -> int:
    """A field of config.json that must be a positive whole number; or ``ModelError``."""
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ModelError(
            f"{where}: {key} is {repr(value)[:60]}, expected a positive whole number", hint=EDITED
        )
    return value


def number_of(config: Mapping[str, Any], key: str, default: float, *, where: str = "config.json") -> float:
    """A field of config.json that must be a finite number; or ``ModelError``."""
    value = config.get(key, default)
    # 10^400 is a whole number, and none of these.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST:
        raise ModelError(f"{where}: {key} is {str(value)[:60]}, expected a number", hint=EDITED)
    return float(value)


def flag_of(config: Mapping[str, Any], key: str, default: bool, *, where: str) -> bool:
    """A field that must be true or false: others are read either way, by whoever reads them; or ``ModelError``."""
    value = config.get(key, default)
    if not isinstance(value, bool):
        raise ModelError(f"{where}: {key} is {repr(value)[:60]}, expected true or false", hint=EDITED)
    return value


SAME = (
    ("hidden_size", "dim", "n_embd", "emb_dim"),
    ("num_hidden_layers", "n_layers", "n_layer"),
    ("num_attention_heads", "n_heads", "n_head"),
    ("intermediate_size", "hidden_dim", "n_inner"),
    ("layer_norm_eps", "layer_norm_epsilon"),
)
"""Names that architectures have for one thing, of which transformers takes either where there are two."""


def require_one_value(config: Mapping[str, Any]) -> None:
    """Raise ``ModelError`` where config.json says one thing by two names, and not the same."""
    for names in SAME:
        said = {name: config[name] for name in names if config.get(name) is not None}
        first = next(iter(said.items()), None)
        other = next((each for each in said.items() if first and each[1] != first[1]), None)
        if first and other:
            raise ModelError(
                f"config.json says {first[0]} {str(first[1])[:40]} and {other[0]} {str(other[1])[:40]}, which are two names of one number",
                hint="leave the one that the weights have",
            )


def padding_of(config: Mapping[str, Any]) -> int:
    """The id of the token that fills texts up, 0 where config.json has none; or ``ModelError``."""
    said = config.get("pad_token_id") or 0
    if not isinstance(said, int) or abs(said) > LARGEST_ID:
        raise ModelError(
            f"config.json: pad_token_id is {repr(said)[:60]}, expected a token's number", hint=EDITED
        )
    return said


def code_of(document: Mapping[str, Any], classes: Collection[str]) -> str:
    """The code that comes with a model for one of these classes of transformers (``auto_map``), which edgepack never runs; or nothing."""
    named = document.get("auto_map")
    said = [named.get(each) for each in classes] if isinstance(named, dict) else [named]
    found = [each for names in said for each in (names if isinstance(names, list) else [names]) if each]
    return str(found[0])[:80] if found else ""


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(
        f"cannot read {path.name}: {error.strerror}", hint="check that the file can be read, and the disk"
    )


def truncation_of(tokenizer: Mapping[str, Any], *, where: str) -> Mapping[str, Any]:
    """How a tokenizer.json truncates, empty where it does not. Raises ``UnsupportedModelError`` where it does so at the beginning."""
    truncation = require_object(tokenizer.get("truncation") or {}, f"{where}: truncation")
    if truncation.get("direction", "Right") != "Right":
        raise UnsupportedModelError(
            f"{where} truncates long texts at the beginning (truncation), which bundles do not support",
            hint="remove it: edgepack then does as other models do",
        )
    return truncation
