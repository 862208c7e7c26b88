"""The source: a folder on a server, ``$ACME_SERVER/NAME/``, with a listing ``newest.json`` of its newest revision.

A listing is ``{"revision": "r1", "files": {"config.json": SHA256, …}}``; the files lie in ``NAME/r1/``.
"""

import json
import os
import re
from pathlib import Path

from edgepack import api
from edgepack.api import axes

ADDRESS = re.compile(r"acme://([\w.-]+)(?:@(\w+))?")


class Shelf:
    """Finds models by name (``edgepack.api.axes.Source``). The host fetches, keeps and reads them."""

    def find(self, address: str, *, context: api.BuildContext) -> axes.RemoteModel:
        given = ADDRESS.fullmatch(address)
        if given is None:
            raise api.ModelError(
                f"{address} names no model", hint="write acme://NAME or acme://NAME@REVISION"
            )
        name, asked = given.groups()
        base = f"{os.environ.get('ACME_SERVER', 'https://models.example.org')}/{name}"
        listing = json.loads(axes.ask(f"{base}/{asked or 'newest'}.json"))
        revision, files = str(listing["revision"]), dict(listing["files"])

        def fetch(file: str, destination: Path) -> None:
            axes.download(
                f"{base}/{revision}/{file}", destination, sha256=files[file], progress=context.progress
            )

        return axes.RemoteModel(
            name=name,
            origin=f"acme://{name}@{revision}",
            pins={"revision": revision},
            files=tuple(files),
            fetch=fetch,
        )
