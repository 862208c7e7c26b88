"""Windows, as a stand-in for it takes lines: each line is one that the stand-in knows, and does with files what it should."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support import fake_cmd
from tests.support.signed import write_small_bundle

from edgepack.bundles.manifest import file_entry, open_bundle, read_manifest, write_manifest
from edgepack.device.describe import describe
from edgepack.device.fit import fits
from edgepack.device.placed import placed
from edgepack.device.program import runner_on
from edgepack.device.session import open_session, parse_address
from edgepack.device.windows import Windows
from edgepack.errors import DeviceError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle

pytestmark = pytest.mark.tools("python", may=("tar",))


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    folder = write_small_bundle(tmp_path / "bundle", b'#!/bin/sh\necho "$*"; cat; exit 3\n')
    (folder / "embed").rename(folder / "embed.exe")
    (folder / "lib/libonnxruntime.so.1").unlink()
    manifest = read_manifest(folder)
    files = [
        file_entry(path, root=folder, part="runner")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    ]
    target: Any = {**manifest["target"], "platform": {"os": "windows", "arch": "x86_64"}}
    runner = {**manifest["runner"], "program": "embed.exe"}
    write_manifest(folder, {**manifest, "files": files, "target": target, "runner": runner})
    return open_bundle(folder)


@pytest.mark.parametrize("shell", ["cmd", "powershell"])
def test_a_bundle_on_windows(
    shell: str, bundle: Bundle, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    there.mkdir()

    def words(self: object, line: str) -> Sequence[str | Path]:
        return (sys.executable, fake_cmd.__file__, there, shell, line)

    monkeypatch.setattr("edgepack.device.command.Command.words", words)
    address = parse_address(f"pc=exec:{sys.executable}")
    with open_session(address, context=context) as session:
        assert session.shell == Windows(powershell=shell == "powershell")
        device = describe(session, context=context).device
        assert (device.system, device.machine, device.cores) == ("Windows", "x86_64", 4)
        assert device.kernel == "Microsoft Windows [Version 10.0.26100.1]"
        assert fits(bundle, device)
        with placed(bundle, session, context=context) as found:
            assert found.files_by == "certutil"
            assert found.folder.startswith("C:\\tmp\\edgepack-")
            runner = runner_on(found, context=context)
            done = runner.run(bundle, [bundle.program, "--jsonl", "--out", "a b"], "input\n")
            assert (done.code, done.output) == (3, "--jsonl --out a b\ninput\n")
        assert list(there.iterdir()) == []


def test_commands_stay_below_what_cmd_takes() -> None:
    names = [f"model/{'long' * 10}-{number}.bin" for number in range(500)]
    commands = Windows().digests("C:\\tmp\\edgepack-1", names)
    assert len(commands) > 1
    assert max(len(Windows().line(each, "token")) for each in commands) < 8191
    assert sum(each.count("certutil") for each in commands) == 500


@pytest.mark.parametrize("word", ["a&b", 'a"b', "%TEMP%", "a^b", "a|b", "!x!", "a\nb", "end\\"])
def test_words_that_cmd_would_change_are_refused(word: str) -> None:
    with pytest.raises(DeviceError, match="is no word for"):
        Windows().program("C:\\tmp\\edgepack-1", ["embed.exe", word], 60)


def test_digests_in_any_language_of_the_system() -> None:
    said = ["SHA256-Hash von a:\r\n" + "AB " * 31 + "ab\r\nCertUtil: fertig\r\n" + "c" * 64 + "\n"]
    assert Windows().read_digests(said, ["a", "b"]) == {"a": "ab" * 32, "b": "c" * 64}
    assert Windows().read_digests(said, ["a"]) == {}
