"""llhttp, which is taken as it was released."""

import re
from hashlib import sha256

from edgepack.runner.native.build import LLHTTP_LICENSE
from edgepack.runner.native.sources import source_files

RELEASED = {
    "third_party/llhttp/api.c": "0f8590206fe2f264db2825401b5fb856b979ee1363dc88b06f36dc9577afb941",
    "third_party/llhttp/http.c": "a1f2b23168f8e9b5bfa464c89027d3ca259fc649ae3d7e72bfff997d1aeb5d72",
    "third_party/llhttp/llhttp.c": "391e7c99912abf3b1c9dd8a9c85fdeaac2663e9fa55b6f3871154d16fef8b892",
    "third_party/llhttp/llhttp.h": "5bc82fa51b19aa8bee7d921038393fbfc74e8cc9bae0844c2d82c102fb8cfd68",
}
"""SHA-256 of the files of release 9.4.3; the sdist of httptools 0.9.0 has them in vendor/llhttp."""


def test_not_a_byte_of_it_is_ours() -> None:
    found = {
        name: sha256(text.encode()).hexdigest() for name, text in source_files("third_party/llhttp/").items()
    }
    assert found == RELEASED


def test_its_licence_names_its_version() -> None:
    header = source_files("third_party/llhttp/")["third_party/llhttp/llhttp.h"]
    numbers = (re.search(rf"LLHTTP_VERSION_{part} (\d+)", header) for part in ("MAJOR", "MINOR", "PATCH"))
    assert f"llhttp-{'.'.join(found[1] for found in numbers if found)}.txt" == LLHTTP_LICENSE
