"""A plugin that can be made wrong, and a bundle of it that is built once."""

import json
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.kiosk import install, prepare_site

from edgepack.bundles.manifest import digest, file_entry, open_bundle
from edgepack.testing.built import Built
from edgepack.testing.kit import Kit, TargetSubject
from edgepack.testing.script import PROGRAM
from edgepack.verifier.trusted_bundles import remember

Wrong = Callable[..., TargetSubject]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TargetSubject]:
    """The plugin as it should be, with its bundle."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("EDGEPACK_CACHE", str(tmp_path_factory.mktemp("cache")))
        install(prepare_site(tmp_path_factory.mktemp("site") / "site", monkeypatch), monkeypatch)
        kit = Kit(folder=tmp_path_factory.mktemp("kit"))
        subject = TargetSubject(kit, "kiosk-one")
        assert not subject.built.failed  # now: soon wrong plugins lie in its place
        yield subject
        kit.close()
    sys.modules.pop("edgepack_kiosk", None)


@pytest.fixture
def wrong(honest: TargetSubject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wrong]:
    """The plugin with changes to its code; with ``built``, the honest one's bundle is taken for its own."""
    kits = []

    def make(*changes: tuple[str, str], built: bool = True, **more: str) -> TargetSubject:
        install(prepare_site(tmp_path / "site", monkeypatch), monkeypatch, *changes, **more)
        kits.append(Kit(folder=tmp_path / "kit"))
        subject = TargetSubject(kits[0], "kiosk-one")
        if built:
            vars(subject)["built"] = honest.built
        return subject

    yield make
    for thread in threading.enumerate():
        if isinstance(
            thread, threading.Timer
        ):  # a plugin's, which would keep the tests' process for its minutes
            thread.cancel()
    for kit in kits:
        kit.close()
    sys.modules.pop("edgepack_kiosk", None)


@pytest.fixture
def with_files(honest: TargetSubject, tmp_path: Path) -> Callable[..., TargetSubject]:
    """The honest bundle with other files, as if it had come through a build."""

    def make(files: Mapping[str, bytes], **sections: object) -> TargetSubject:
        folder = tmp_path / honest.built.directory.name
        shutil.copytree(honest.built.directory, folder)
        manifest = json.loads((folder / "manifest.json").read_text()) | sections
        entries = {file["path"]: file for file in manifest["files"]}
        for path, content in files.items():
            (folder / path).write_bytes(content)
            part = entries[path]["part"] if path in entries else "runner"
            entries[path] = file_entry(folder / path, root=folder, part=part)
        manifest["files"] = [entries[path] for path in sorted(entries)]
        (folder / "manifest.json").write_text(json.dumps(manifest))
        subject = TargetSubject(replace(honest.kit, folder=tmp_path / "kit"), "kiosk-one")
        built: Built = honest.built
        vars(subject)["built"] = replace(built, report={**built.report, "directory": str(folder)})
        remember(digest(open_bundle(folder)), store=honest.kit.context().store)
        return subject

    return make


@pytest.fixture
def with_program(with_files: Callable[..., TargetSubject]) -> Callable[..., TargetSubject]:
    """The honest bundle with another program."""

    def make(*changes: tuple[str, str], misdeed: str = "") -> TargetSubject:
        code = PROGRAM.replace("MISDEED", misdeed)
        for old, new in changes:
            assert old in code, old
            code = code.replace(old, new)
        return with_files({"embed": code.encode()})

    return make
