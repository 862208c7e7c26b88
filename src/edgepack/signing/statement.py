"""What is signed of a bundle: an in-toto statement with every file's SHA-256, as model-signing 1.1 writes and reads it."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from edgepack.bundles.manifest import LINK, MANIFEST, SIGNATURE
from edgepack.errors import SignatureError
from edgepack.files.store import sha256_of
from edgepack.records.bundle import Bundle

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://model_signing/signature/v1.0"


def statement_of(bundle: Bundle) -> dict[str, Any]:
    """The statement of a bundle whose files were checked (``open_bundle``). Links are followed, and so said."""
    digests = digests_of(bundle)
    names = sorted(digests, key=lambda name: name.split("/"))
    links = any(file["mode"] == LINK for file in bundle.manifest["files"])
    return {
        "_type": STATEMENT,
        "subject": [{"name": bundle.name, "digest": {"sha256": _root([digests[name] for name in names])}}],
        "predicateType": PREDICATE,
        "predicate": {
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": links,
                "ignore_paths": [SIGNATURE],
            },
            "resources": [{"name": name, "algorithm": "sha256", "digest": digests[name]} for name in names],
        },
    }


def digests_of(bundle: Bundle) -> dict[str, str]:
    """Path → SHA-256 of all files that a signature is to name: those of the manifest, and the manifest itself.

    A link stands for the file it leads to; one that leads to a folder is named in the manifest alone, whose digest is here.
    """
    found = {MANIFEST: sha256_of(bundle.directory / MANIFEST)}
    read = cache(sha256_of)  # thousands of links may lead to one file
    for file in bundle.manifest["files"]:
        path = bundle.directory / file["path"]
        if file["mode"] != LINK:
            found[file["path"]] = file["sha256"]
        elif path.is_file():
            found[file["path"]] = read(path.resolve())
    return found


def require_statement_of(bundle: Bundle, statement: Mapping[str, Any]) -> None:
    """Raise ``SignatureError`` where a signed statement is not of this bundle, whole.

    The bundle's files have to be as its manifest lists them (``open_bundle``). What a statement would ignore is not asked for:
    nothing lies in a bundle that is not listed.
    """
    if statement.get("_type") != STATEMENT or statement.get("predicateType") != PREDICATE:
        raise SignatureError("the signature is of something else than a model's files")
    try:
        predicate = statement["predicate"]
        serialization, resources = predicate["serialization"], predicate["resources"]
        if (serialization["method"], serialization["hash_type"]) != ("files", "sha256"):
            raise SignatureError(
                "the signature is not of whole files by SHA-256", hint="sign it with `edgepack sign`"
            )
        signed = {
            resource["name"]: resource["digest"]
            for resource in resources
            if resource["algorithm"] == "sha256"
        }
        roots = [subject["digest"]["sha256"] for subject in statement["subject"]]
        root = _root([resource["digest"] for resource in resources])
    except (KeyError, TypeError, ValueError) as error:
        raise SignatureError(f"the signature's statement is invalid: {error!r}") from error
    if len(signed) != len(resources) or roots != [root]:
        raise SignatureError("the signature's statement contradicts itself")
    _require_same(signed, digests_of(bundle), bundle.name)


def _require_same(signed: Mapping[str, str], found: Mapping[str, str], name: str) -> None:
    hint = "do not use the bundle: fetch it again from whom you trust"
    if strange := sorted(found.keys() - signed.keys()):
        raise SignatureError(f"{name}: {strange[0]} is not signed", hint=hint)
    if missing := sorted(signed.keys() - found.keys()):
        raise SignatureError(f"{name}: {missing[0]} is signed, and missing", hint=hint)
    if other := [path for path in sorted(found) if found[path] != signed[path]]:
        raise SignatureError(f"{name}: {other[0]} is not what was signed", hint=hint)


def _root(digests: Sequence[str]) -> str:
    """SHA-256 of all digests, one behind the other."""
    return hashlib.sha256(b"".join(bytes.fromhex(digest) for digest in digests)).hexdigest()
