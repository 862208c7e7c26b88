"""macOS: what is made without running it, and what is said of it."""

import json
import stat
from pathlib import Path

import pytest
from tests.support.devices import executable
from tests.support.signed import write_small_bundle

from edgepack.api.axes import RuntimeOptions
from edgepack.bundles.manifest import open_bundle
from edgepack.device.fit import fits
from edgepack.errors import MissingToolError, ToolError, UsageError
from edgepack.foundry.platforms import find_platform
from edgepack.foundry.toolchain import ProgramMaker
from edgepack.foundry.units import ProgramSources
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.device import DeviceDescription
from edgepack.records.target import Platform
from edgepack.verifier.copies import with_program
from edgepack_engine.macos import MAGIC, MacToolchain, macos

ZIG = """#!/bin/sh
# cc|c++ -target T … -c SOURCE -o OBJECT, or what links: leaves the words there.
echo "$*" >> words
for word do last=$word; done
printf '{magic}' > "$last"
"""


def toolchain(folder: Path, magic: str = "\\317\\372\\355\\376") -> MacToolchain:
    licence = folder / "licence.txt"
    licence.write_text("a licence")
    program = executable(folder / "zig", ZIG.format(magic=magic))
    return MacToolchain(program=program, version="0", arch="aarch64", licenses={"libc++-1.txt": licence})


SOURCES = ProgramSources(files={"base/a.cc": "int a;", "third.c": "int c;", "base/a.h": ""}, output="embed")


@pytest.mark.tools("sh")
def test_a_program_is_compiled_source_by_source_and_linked(tmp_path: Path, context: HostContext) -> None:
    made = tmp_path / "made"
    made.mkdir()
    toolchain(tmp_path).make_program(SOURCES, made, context=context)
    assert (made / "embed").read_bytes() == MAGIC
    assert (made / "embed").stat().st_mode & stat.S_IXUSR
    assert (made / "licenses/libc++-1.txt").read_text() == "a licence"
    *compiled, linked = (context.work_dir / "macos-aarch64-embed/words").read_text().splitlines()
    assert all("-include macos/macos.h" in line for line in compiled)
    assert [line.split()[0] for line in compiled] == ["c++", "cc", "cc"]
    assert linked.endswith("-s base/a.cc.o third.c.o macos/macos.c.o -o embed")
    assert all("-target aarch64-macos.11.0" in line for line in (*compiled, linked))


@pytest.mark.tools("sh")
def test_what_is_no_mach_o_file_is_none(tmp_path: Path, context: HostContext) -> None:
    with pytest.raises(ToolError, match="no Mach-O"):
        toolchain(tmp_path, magic="ELF").make_program(SOURCES, tmp_path, context=context)


@pytest.mark.tools("zig")
def test_the_host_takes_what_makes_whole_programs(context: HostContext) -> None:
    """Of a plugin's platform, whose answers it checks."""
    platform = Platform(os="macos", arch="aarch64")
    found = find_platform(platform, context.extensions("platform"))
    assert isinstance(found.toolchain(RuntimeOptions(platform=platform), context=context), ProgramMaker)


def test_libraries_are_refused(tmp_path: Path, context: HostContext) -> None:
    library = ProgramSources(files={}, output="libembed.dylib", exports=("embed_open",))
    with pytest.raises(UsageError, match="no libembed for macOS"):
        toolchain(tmp_path).make_program(library, tmp_path, context=context)


@pytest.mark.parametrize(
    "options",
    [
        RuntimeOptions(platform=Platform(os="macos", arch="aarch64"), shared=True),
        RuntimeOptions(platform=Platform(os="macos", arch="aarch64"), glibc="2.28"),
        RuntimeOptions(platform=Platform(os="macos", arch="x86_64", isa=("avx2",))),
    ],
)
def test_what_macos_has_not_is_refused(options: RuntimeOptions) -> None:
    with pytest.raises(UsageError):
        macos().check(options)


def test_nothing_here_runs_them(tmp_path: Path, context: HostContext) -> None:
    with pytest.raises(MissingToolError, match="nothing here runs programs of macOS"):
        macos().emulator(context=context)
    (tmp_path / "embed").write_bytes(MAGIC + bytes(100))
    assert macos().recognizes(tmp_path / "embed")
    assert not macos().recognizes(tmp_path / "none")


def test_a_mac_is_a_device_of_it() -> None:
    platform = {"os": "macos", "arch": "aarch64"}
    manifest: dict[str, object] = {
        "name": "b",
        "target": {"platform": platform},
        "files": [],
        "runtime": None,
        "runner": {},
    }
    bundle = Bundle(directory=Path("b"), manifest=manifest)
    assert fits(bundle, DeviceDescription(system="Darwin", machine="aarch64"))
    assert not fits(bundle, DeviceDescription(system="Linux", machine="aarch64"))


def test_a_copy_with_a_program_for_this_machine_is_a_bundle(tmp_path: Path, context: HostContext) -> None:
    """The digest of a bundle for macOS is made with it; the bundle itself keeps its program."""
    bundle = open_bundle(write_small_bundle(tmp_path / "bundle", MAGIC))
    twin = executable(tmp_path / "twin", "#!/bin/sh\necho here\n")
    copy = with_program(bundle, twin, context=context)
    assert open_bundle(copy.directory).program.read_text().endswith("echo here\n")
    assert json.loads((copy.directory / "manifest.json").read_text())["target"]["platform"]["os"] == "linux"
    assert open_bundle(bundle.directory).program.read_bytes() == MAGIC
