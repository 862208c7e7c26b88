"""A hook of MkDocs: a link of a page to a file of the repository that is no page leads to the repository.

The pages link to sources and to each other by relative paths, as GitHub shows them; the site has only what is in ``docs/``.
"""

import posixpath
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

LINK = re.compile(r"\]\((\.\./[^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """The page's text with those links made absolute."""
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")

    def led(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        return link[0] if path.startswith("docs/") else f"]({config.extra['repository']}/blob/main/{path})"

    return LINK.sub(led, markdown)
