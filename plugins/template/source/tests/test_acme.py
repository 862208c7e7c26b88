"""A model comes from a server of the test's own."""

import functools
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from edgepack_acme.source import Shelf

from edgepack import api
from edgepack.testing import write_model


def test_a_model_is_found_and_read(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "web" / "tiny" / "r1")
    digests = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
    listing = json.dumps({"revision": "r1", "files": digests})
    (tmp_path / "web" / "tiny" / "newest.json").write_text(listing)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "web")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        places = {"ACME_SERVER": f"http://127.0.0.1:{server.server_port}", "EDGEPACK_CACHE": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-m", "edgepack", "inspect", "acme://tiny", "--json"],
            env={**os.environ, **places},
            capture_output=True,
            text=True,
            check=True,
        )
        server.shutdown()
    assert json.loads(done.stdout)["dimension"] == 32


def test_an_address_that_names_no_model_is_said_to_be_one() -> None:
    with pytest.raises(api.ModelError, match="names no model"):
        Shelf().find("acme:///", context=None)  # type: ignore[arg-type]
