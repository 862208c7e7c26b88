"""A bundle of a few small files, to sign and to tamper with."""

import json
from pathlib import Path

from edgepack.bundles.manifest import MANIFEST, file_entry
from edgepack.runner.freeze.sample_bundle import sample_manifest, sample_model, write_golden
from edgepack.signing.keys import PrivateKey, load_private, new_keys

LIBRARY, TOKENIZER = "lib/libonnxruntime.so", "model/tokenizer.bin"


def write_small_bundle(folder: Path, program: bytes = b"#!/bin/sh\n") -> Path:
    """Sound as far as its files go; its library is none, and a link leads to it."""
    for name, content in {
        "embed": program,
        LIBRARY: b"a library",
        TOKENIZER: b"a tokenizer",
        "model/model.onnx": sample_model(),
        "LICENSES/NOTICES.txt": b"notices",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "embed").chmod(0o755)
    (folder / "lib/libonnxruntime.so.1").symlink_to("libonnxruntime.so")
    write_golden(folder, {})
    return list_files(folder)


def list_files(folder: Path, *, library: str = LIBRARY) -> Path:
    """Write the manifest of what lies in a folder."""
    parts = {"model": "model", "lib": "runtime", "LICENSES": "licenses", "golden.json": "golden"}
    files = [
        file_entry(path, root=folder, part=parts.get(path.relative_to(folder).parts[0], "runner"))
        for path in sorted(folder.rglob("*"))
        if path.name not in (MANIFEST, "signature.sigstore.json") and (path.is_symlink() or path.is_file())
    ]
    manifest = {**sample_manifest(library, TOKENIZER), "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
    return folder


def same_key_in(folder: Path) -> None:
    """``key.key`` and ``key.pub``, the same each time: a program that is compiled for the key is in the cache."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = derive_private_key(33, SECP256R1())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "key.key").write_bytes(secret)
    (folder / "key.key").chmod(0o600)
    (folder / "key.pub").write_bytes(PrivateKey(key).public.pem)


def key_in(folder: Path, name: str = "key") -> PrivateKey:
    """A new key, whose files are ``NAME.key`` and ``NAME.pub``."""
    private, _ = new_keys(folder / name, password=None)
    return load_private(private, password=None)
