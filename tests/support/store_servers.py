"""Servers that a store can be on, as people run them: moto answers as S3 does, WsgiDAV is WebDAV.

They are kept in the user's cache with s3fs, 150 MB unpacked; fetched by pip at the first use. Tests that use them are behind ``--slow``.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.support.newest import fetched

PACKAGES = ("moto[s3]==5.2.5", "flask", "flask-cors", "s3fs==2026.9.0", "wsgidav==4.4.0", "cheroot")
BUCKET = "models"
SIGNED = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
"""moto looks at who it is, not at the signature."""
S3 = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%s" % server.get_host_and_port(), flush=True)
sys.stdin.read()
"""
WEBDAV = """
import json, sys, threading
from cheroot.wsgi import Server
from wsgidav.wsgidav_app import WsgiDAVApp
server = Server(("127.0.0.1", 0), WsgiDAVApp(json.loads(sys.argv[1])))
server.prepare()
threading.Thread(target=server.serve, daemon=True).start()
print("http://%s:%s" % server.bind_addr, flush=True)
sys.stdin.read()
"""


class StoreServer(Protocol):
    """A store on a server that runs."""

    @property
    def address(self) -> str:
        """Of the store."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Of those who may write there."""

    def names(self) -> list[str]:
        """Of the files in the store."""

    def replace(self, name: str, content: bytes) -> None:
        """As a server that has lost or changed something does."""

    def refuse(self) -> tuple[str, Mapping[str, str]]:
        """Address and environment of those who may not write."""


@dataclass(frozen=True, kw_only=True)
class S3Server:
    base: str
    address: str
    environment: Mapping[str, str]

    def names(self) -> list[str]:
        listed = urllib.request.urlopen(f"{self.base}/{BUCKET}?list-type=2").read().decode()
        return re.findall(r"<Key>(.+?)</Key>", listed)

    def replace(self, name: str, content: bytes) -> None:
        self._send("PUT", f"{BUCKET}/{name}", content)

    def refuse(self) -> tuple[str, Mapping[str, str]]:
        self._send("POST", "moto-api/reset-auth", b"0")  # No request without rights is answered from here on.
        return self.address, self.environment

    def _send(self, method: str, path: str, content: bytes) -> None:
        kind = {"Content-Type": "text/plain", "Authorization": SIGNED}
        urllib.request.urlopen(
            urllib.request.Request(f"{self.base}/{path}", content, kind, method=method)
        ).close()


@dataclass(frozen=True, kw_only=True)
class WebDavServer:
    folder: Path
    address: str
    environment: Mapping[str, str]

    def names(self) -> list[str]:
        return [path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()]

    def replace(self, name: str, content: bytes) -> None:
        (self.folder / name).write_bytes(content)

    def refuse(self) -> tuple[str, Mapping[str, str]]:
        return self.address.replace("/team/", "/public/"), {**self.environment, "NETRC": os.devnull}


@contextmanager
def s3(folder: Path) -> Iterator[StoreServer]:
    """With an empty bucket."""
    with _running(S3) as (base, environment):
        keys = {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        server = S3Server(
            base=base,
            address=f"s3://{BUCKET}/edgepack",
            environment={**environment, **keys, "AWS_ENDPOINT_URL": base},
        )
        server._send("PUT", BUCKET, b"")
        yield server


@contextmanager
def webdav(folder: Path) -> Iterator[StoreServer]:
    """With an empty folder, which one reads and writes who has the password; anybody reads it elsewhere."""
    (folder / "dav").mkdir()
    config = {
        "provider_mapping": {
            "/team": str(folder / "dav"),
            "/public": {"root": str(folder / "dav"), "readonly": True},
        },
        "simple_dc": {"user_mapping": {"/team": {"me": {"password": "secret"}}, "/public": True}},
        "http_authenticator": {"accept_basic": True},
        "verbose": 0,
    }
    with _running(WEBDAV, json.dumps(config)) as (base, environment):
        netrc = folder / "netrc"
        netrc.write_text("machine 127.0.0.1 login me password secret\n")
        netrc.chmod(0o600)
        yield WebDavServer(
            folder=folder / "dav",
            address=f"{base}/team/edgepack",
            environment={**environment, "NETRC": str(netrc)},
        )


@contextmanager
def _running(program: str, *arguments: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Its address, and the environment in which Python finds what it needs."""
    packages = str(fetched("store-servers", PACKAGES, dependencies=True))
    environment = {"PYTHONPATH": packages}
    server = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip(), environment
    finally:
        server.terminate()
        server.communicate()
