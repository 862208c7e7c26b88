"""The lock file: everything that pyproject.toml asks for, in a version that it allows, and nothing without a digest."""

import importlib.metadata
import re
import tomllib
from collections.abc import Iterator, Mapping

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from tests.support.house import ROOT

LOCK = ROOT / "requirements/build.txt"
RENEW = "pyproject.toml and requirements/build.txt disagree: make lock"


def locked() -> dict[str, list[tuple[Requirement, list[str]]]]:
    """Name → its entries, one for each set of Pythons that has a version of its own, with their digests."""
    entries: dict[str, list[tuple[Requirement, list[str]]]] = {}
    text = re.sub(r"^#.*\n", "", LOCK.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    for line in filter(None, map(str.strip, text.splitlines())):
        said, *digests = re.split(r"\s+--hash=", line)
        requirement = Requirement(said)
        entries.setdefault(canonicalize_name(requirement.name), []).append((requirement, digests))
    return entries


def environments() -> Iterator[Mapping[str, str]]:
    for python in ("3.11", "3.12", "3.13"):
        for machine in ("x86_64", "aarch64"):
            yield {
                "python_version": python,
                "python_full_version": f"{python}.0",
                "platform_machine": machine,
                "sys_platform": "linux",
                "platform_system": "Linux",
                "os_name": "posix",
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
                "extra": "",
            }


def applies(requirement: Requirement, environment: Mapping[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(dict(environment))


def version_of(name: str, environment: Mapping[str, str]) -> Version | None:
    """The version that is installed there."""
    entries = [each for each, _ in locked().get(canonicalize_name(name), []) if applies(each, environment)]
    assert len(entries) < 2, f"{name} is locked twice"
    return Version(next(iter(entries[0].specifier)).version) if entries else None


@pytest.mark.slow
def test_it_has_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [
        Requirement(each) for each in (*project["dependencies"], *project["optional-dependencies"]["build"])
    ]
    for environment in environments():
        for requirement in filter(lambda each: applies(each, environment), asked):
            version = version_of(requirement.name, environment)
            assert version is not None and version in requirement.specifier, f"{requirement}: {RENEW}"


def test_it_is_whole() -> None:
    """What the locked packages ask for is locked, too."""
    here = next(iter(environments()))
    for name in locked():
        try:
            asked = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for requirement in map(Requirement, asked):
            if applies(requirement, here):
                version = version_of(requirement.name, here)
                assert version is not None and version in requirement.specifier, (
                    f"{name} asks for {requirement}"
                )


def test_every_file_has_a_digest_and_no_index_is_named() -> None:
    for entries in locked().values():
        for requirement, digests in entries:
            assert len(list(requirement.specifier)) == 1 and str(requirement.specifier).startswith("==")
            assert digests and all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in digests)
    assert "://" not in LOCK.read_text() and "--index" not in LOCK.read_text()


@pytest.mark.parametrize("name", ["pyinstaller", "tokenizers", "zstandard", "ziglang", "cmake", "ninja"])
def test_what_ends_on_devices_or_shapes_bytes_is_there(name: str) -> None:
    assert name in locked()
