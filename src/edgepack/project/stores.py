"""The store that a project shares with other machines, by its address."""

import os

from edgepack.errors import UsageError
from edgepack.fetch.http import redacted
from edgepack.files.folder import expanded
from edgepack.files.shared import SECRET, BlobStore, SharedStore
from edgepack.plugins.context import HostContext
from edgepack.terminal_text import did_you_mean

AXIS = "store"
VARIABLE = "EDGEPACK_STORE"
FINISHED = ("cell",)
MADE = (
    *(*FINISHED, "onnx", "prepared", "tokenizer", "tables-tokenizer", "static-table", "webgpu-model"),
    *("runtime", "runtime-web", "program", "tables-program", "standalone", "runner", "tensorrt-engine"),
    *("encoded", "zstd-frame"),
)
"""The kinds of entries that are shared: what was made. What was fetched has servers of its own; what judges and measures is made here.

Without a secret finished bundles alone, as a stranger's: all else would stay in this machine's cache, for whatever is made and judged later.
"""
_opened: dict[str, SharedStore] = {}


def address_of(named: str | None, project: str | None) -> str | None:
    """Address of the store: an option's, else ``EDGEPACK_STORE``'s, else the project file's; a folder's path is absolute."""
    said = named or os.environ.get(VARIABLE) or project
    return str(expanded(said).absolute()) if said and "://" not in said else said or None


def open_shared(url: str, *, context: HostContext) -> SharedStore:
    """The store at an address, one for the whole process: one that cannot be reached is not tried for each cell.

    Raises ``UsageError`` for an address that no plugin takes and a secret that is empty, and what the plugin raises.
    """
    if not os.environ.get(SECRET, "set").strip():
        raise UsageError(
            f"{SECRET} is empty, so entries of anyone who can write to the store {redacted(url)} would be taken",
            hint=f"set it to the secret, or unset {SECRET} if you trust all who can write there",
        )
    if url not in _opened:
        scheme = url.partition("://")[0] if "://" in url else "file"
        known = context.extensions(AXIS)
        if scheme not in known:
            raise UsageError(
                f"no plugin reaches the store {url}{did_you_mean(scheme, known)}",
                hint=f"a folder, or an address that begins with {', '.join(f'{name}://' for name in known)}",
            )
        blobs: BlobStore = known[scheme].make()(url)
        kinds = MADE if os.environ.get(SECRET) else FINISHED
        _opened[url] = SharedStore(blobs=blobs, url=redacted(url), warn=context.warn, kinds=kinds)
    shared = _opened[url]
    shared.warn = context.warn
    return shared
