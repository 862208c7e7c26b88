"""The README leads into this repository by relative links; as the description of the wheel it needs addresses."""

import re
from pathlib import Path

from setuptools import setup

PAGES = "https://github.com/edgepack/edgepack/blob/main/"
FILES = "https://github.com/edgepack/edgepack/raw/main/"


def with_addresses(text: str) -> str:
    """Markdown whose relative links and images lead to the repository's main branch."""
    return re.sub(
        r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)",
        lambda found: f"{found[1]}[{found[2]}]({FILES if found[1] else PAGES}{found[3]})",
        text,
    )


setup(
    long_description=with_addresses(Path("README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
