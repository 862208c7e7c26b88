"""Bundles for macOS, which nothing here runs: what they are made of, read by others."""

import json
from pathlib import Path

import pytest
from tests.support.bundles import made_bundle
from tests.support.code_signature import code_directory
from tests.support.command import edgepack

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3600)]
ARCHITECTURES = {"macos-arm64": "ARM64", "macos-x64": "X86_64"}


@pytest.mark.parametrize("target", ARCHITECTURES)
def test_a_program_for_macos(target: str, tmp_path: Path) -> None:
    lief = pytest.importorskip("lief")
    bundle = made_bundle(target, tmp_path / "out")
    file = lief.parse(str(bundle.program))
    assert ARCHITECTURES[target] in str(file.header.cpu_type)
    assert [each.name for each in file.libraries] == ["/usr/lib/libSystem.B.dylib"]
    assert file.is_pie and file.has_nx
    assert not {"_system", "_fork", "_execve", "_posix_spawn", "_connect"} & {
        each.name for each in file.imported_symbols
    }
    content = bundle.program.read_bytes()
    signed = code_directory(content)
    if target == "macos-arm64":
        assert signed is not None
        assert signed.ad_hoc and signed.wrong == () and signed.limit > 0.9 * len(content)
        altered = bytearray(content)
        altered[len(content) // 2] ^= 1
        again = code_directory(bytes(altered))
        assert again is not None and len(again.wrong) == 1
    # Nothing was run, and so nothing is verified; the digest is of the same arithmetic on this machine.
    report = json.loads(
        bundle.directory.with_name(f"{bundle.directory.name}.report.json").read_text(encoding="utf-8")
    )
    assert report["verification"]["status"] == "not verified"
    assert "nothing here runs programs of macOS" in report["verification"]["reason"]
    here = made_bundle("linux-x86-fast", tmp_path / "here")
    assert bundle.manifest["model"]["vectors_sha256"] == here.manifest["model"]["vectors_sha256"]
    said = edgepack("report", str(bundle.directory))
    assert "not verified" in said.stdout
