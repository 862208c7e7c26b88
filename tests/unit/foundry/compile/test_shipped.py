"""What CMake made, as a release brings it: taken where it was made for just that, and never else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.small_archive import small_archive

from edgepack.foundry.compile.plan import COMMANDS, CONFIGURED
from edgepack.foundry.compile.shipped import configured_key, lay_configured, pack_configured, shipped
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.toolchains.choose import choose
from edgepack.plugins.context import HostContext
from edgepack.records.target import Platform

PLATFORM = "x86_64-linux-gnu.2.28"


@pytest.mark.tools("zig")
def test_what_is_shipped_is_for_the_sources_and_flags_of_today(context: HostContext) -> None:
    """If not, a first build takes a minute longer: write it anew with bin/shipped.py configured."""
    toolchain = choose(Platform(os="linux", arch="x86_64", libc="glibc", glibc="2.28"), context=context)
    table = shipped(RELEASE, kind="minimal", platform=PLATFORM)
    assert table is not None and toolchain.platform == PLATFORM
    assert table["key"] == configured_key(RELEASE, kind="minimal", toolchain=toolchain)
    assert "/tmp/" not in json.dumps(table) and "/home/" not in json.dumps(table)


@pytest.mark.tools("gcc")
def test_it_is_laid_where_it_belongs(
    context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = small_archive(context.store)
    key = configured_key(RELEASE, kind="minimal", toolchain=archive.toolchain)
    file, build = tmp_path / "made.json.zst", tmp_path / "build"

    def laid(kind: str = "minimal") -> bool:
        return lay_configured(RELEASE, archive.tree, build, kind=kind, toolchain=archive.toolchain)

    monkeypatch.setattr(type(RELEASE), "configured_file", lambda *_: file if file.exists() else None)
    assert not laid()
    file.write_bytes(pack_configured(archive.tree, archive.build, key))
    assert not laid("full") and not build.exists(), "it was made for another kind"
    assert laid()
    (command,) = json.loads((build / COMMANDS).read_text())
    assert command["file"] == f"{archive.tree.folder}/unit0.c" and command["command"] == f"gcc -I{build}"
    for name in ("config.h", "onnx/onnx.pb.h", CONFIGURED):
        assert (build / name).read_bytes() == (archive.build / name).read_bytes()
    assert not (build / "zig-cache").exists()


@pytest.mark.slow
@pytest.mark.tools("cmake", "ninja", "zig", "python")
def test_cmake_still_makes_what_is_shipped(tmp_path: Path) -> None:
    root = Path(__file__).parents[4]
    subprocess.run([sys.executable, root / "bin/shipped.py", "configured", tmp_path], check=True, cwd=root)
    (made,) = tmp_path.iterdir()
    file = RELEASE.configured_file("minimal", PLATFORM)
    assert file is not None and made.read_bytes() == file.read_bytes()
