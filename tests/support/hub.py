"""A server that answers like the Hugging Face hub."""

import hashlib
import json
from pathlib import Path

from tests.support.serving import Asked, Behaviour, Reply, Server, file, page
from tests.support.tiny import files_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = (".safetensors", ".onnx", ".onnx_data", ".bin")


def listing(files: dict[str, bytes], commit: str = COMMIT) -> str:
    """The hub's answer about a repository; large files come with their digest."""
    siblings = [
        {"rfilename": name, "size": len(content), "blobId": "0"}
        | (
            {"lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 1}}
            if name.endswith(LARGE)
            else {}
        )
        for name, content in files.items()
    ]
    return json.dumps({"id": "tiny/bert", "sha": commit, "siblings": siblings})


def guarded(behaviour: Behaviour, token: str) -> Behaviour:
    """For those with the token only."""

    def behave(asked: Asked) -> Reply:
        if asked.headers.get("authorization") != f"Bearer {token}":
            return Reply(status=401)
        return behaviour(asked)

    return behave


def publish(
    server: Server,
    model: Path,
    *,
    repository: str = "tiny/bert",
    revision: str = "main",
    commit: str = COMMIT,
    token: str | None = None,
) -> None:
    files = files_of(model)
    asked = f"/api/models/{repository}/revision/{revision}"
    answers = {asked: page(listing(files, commit), "application/json")}
    answers |= {f"/{repository}/resolve/{commit}/{name}": file(content) for name, content in files.items()}
    for path, behaviour in answers.items():
        server.on(path, guarded(behaviour, token) if token else behaviour)
