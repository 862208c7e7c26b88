"""A hook of MkDocs: links of pages to files of the repository that are no pages lead to the repository, and parts of pages are written from the code.

The pages link to sources and to each other by relative paths, as GitHub shows them; the site has only what is in ``docs/``.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.site import with_parts

LINK = re.compile(r"\]\((\.\./[^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """The page's text with its written parts, and with those links made absolute."""
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def led(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        return link[0] if path.startswith("docs/") else f"]({config.extra['repository']}/blob/main/{path})"

    return LINK.sub(led, with_parts(markdown))
