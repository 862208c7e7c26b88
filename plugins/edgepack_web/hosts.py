"""Headers for the common static hosts: what may be kept for ever, and what lets a page have threads."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FOR_EVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"
ISOLATION = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}
SHARED = {"Cross-Origin-Resource-Policy": "cross-origin", "Access-Control-Allow-Origin": "*"}
ASSETS = SHARED | {"Cross-Origin-Embedder-Policy": "require-corp"}
"""Pages that are isolated start a worker only from a file that says so, too."""


def page_headers(*, threads: bool) -> dict[str, str]:
    """Headers of all but the assets. A browser starts another process for an isolated page, so one without threads is not."""
    return SHARED | (ISOLATION if threads else {})


def has_threads(runtimes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a page can have threads with one of a bundle's runtimes."""
    return any(each["threads"] for each in runtimes)


def write_host_files(root: Path, *, threads: bool) -> None:
    """``_headers`` (Cloudflare Pages, Netlify) and ``nginx.conf``, a snippet for a server of one's own."""
    (root / "_headers").write_text(headers_file(threads=threads), encoding="utf-8", newline="\n")
    (root / "nginx.conf").write_text(nginx_snippet(threads=threads), encoding="utf-8", newline="\n")


def headers_file(*, threads: bool) -> str:
    """The form that Cloudflare Pages and Netlify read.

    Where two rules name a header, both hosts send both values: only assets have a ``Cache-Control`` here, and all else
    the hosts' own ``max-age=0, must-revalidate``.
    """
    everything = page_headers(threads=threads)
    assets = {name: value for name, value in ASSETS.items() if name not in everything}
    rules = {"/*": everything, "/assets/*": assets | {"Cache-Control": FOR_EVER}}
    return "".join(
        f"{place}\n" + "".join(f"  {name}: {value}\n" for name, value in headers.items())
        for place, headers in rules.items()
    )


def nginx_snippet(*, threads: bool) -> str:
    """For ``location`` in a server block; ``brotli_static`` needs the module ngx_brotli, without it gzip is sent.

    What assets may be kept for is said of those that are there only (no ``always``): of one that is asked for too early,
    while a new version is being copied to the server, nobody is to remember for a year that it was not.
    """
    everything, assets = (
        "\n".join(f'    add_header {name} "{value}" always;' for name, value in headers.items())
        for headers in (page_headers(threads=threads), ASSETS)
    )
    return f"""# include this in a server block; root is the folder that holds this one
types {{ text/javascript mjs js; application/wasm wasm; application/octet-stream bin table; application/json json;
        text/html html; text/css css; text/plain mts txt; }}
gzip_static on;
gzip_vary on;
# brotli_static on;   # with the module ngx_brotli: a sixth less than gzip
location / {{
    add_header Cache-Control "{ASK_AGAIN}" always;
{everything}
}}
location /assets/ {{
    add_header Cache-Control "{FOR_EVER}";
{assets}
}}
"""
