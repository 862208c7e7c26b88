"""Windows: what the plugin refuses, how a program is laid out for it, and by what it is run here."""

import importlib.util
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.windows_sample import build_program
from tests.support.wine import required_wine

from edgepack.cli import cli
from edgepack.errors import BundleError, MissingToolError, TargetError, UsageError
from edgepack.foundry.platforms import find_platform
from edgepack.foundry.proof.emulator import find_system
from edgepack.foundry.toolchains.choose import choose
from edgepack.foundry.toolchains.zig import zig_program
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.target import Platform
from edgepack_windows import builder, encoders, wine
from edgepack_windows.imports import imports_of, is_signed, require_imports
from edgepack_windows.layout import layout_of, sign_file
from edgepack_windows.libc import FLAGS, TARGET
from edgepack_windows.pe import BASE, PAGE, windows_program
from edgepack_windows.registers import require_no_thread_register

CSRC = Path(__file__).parents[2] / "plugins/edgepack_windows/csrc"
needs_zig = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")
LINK = ("-static", "-pie", "--no-dynamic-linker", "-z", "text", "-z", "separate-code", "--gc-sections", "-s")
PROGRAM = """
#include "win32.h"
static const char said[] = "laid out\\n", other[] = "other\\n";
static const char *volatile texts[] = {said, other};
static volatile int ready[5000] = {42};
static volatile char zero[70000];
WINDOWS void _start(void) {
	uint32_t done = 0;
	Handle output = win32.GetStdHandle((uint32_t)-11);
	win32.WriteFile(output, texts[zero[69999]], sizeof said - 1, &done, NULL);
	win32.WakeByAddressAll(&done);
	win32.TerminateProcess(win32.GetCurrentProcess(), (uint32_t)ready[0]);
}
"""


@needs_zig
@pytest.mark.tools("zig")
def test_the_program_is_linked_with_its_server(shared_context: HostContext) -> None:
    """What is new in it may ask the C library for more than this one has of musl."""
    assert build_program(shared_context, "serve").startswith(b"MZ")


def test_a_target_of_its_own_builder(context: HostContext) -> None:
    target = load_plugins().target("windows-x64")
    found = find_platform(target.platform, load_plugins().extensions("platform"))
    assert (found.os, found.libc, found.architectures) == ("windows", None, ("x86_64",))
    made = builder.create_builder(target, context)
    served = builder.create_builder(load_plugins().target("windows-x64", ["serve=true"]), context)
    assert isinstance(made, builder.WindowsBuilder) and isinstance(served, builder.WindowsBuilder)
    layout = replace(made.layout, serves=True)
    assert served == replace(made, target=served.target, serve=True, layout=layout)


@pytest.mark.parametrize(
    ("overrides", "said", "todo"),
    [
        (["signatures=true"], "unknown option signatures", "builder windows: authenticode, check,"),
        (["runtime=stock"], "runtime", "minimal"),
        (
            ["authenticode=osslsigncode sign program"],
            "does not say where the program is",
            "{unsigned} and {signed}",
        ),
        (["model.format=onnx"], "reads ORT format models, not .onnx", "--set model.format=ort"),
        (["platform.arch=aarch64"], "no runtime can be made for windows on aarch64", "a plugin can bring"),
        (["platform.os=linux"], "builder windows makes bundles for windows, not for linux", ""),
    ],
)
def test_what_is_refused_before_anything_is_fetched(
    context: HostContext, overrides: list[str], said: str, todo: str
) -> None:
    with pytest.raises((UsageError, TargetError)) as caught:
        builder.create_builder(load_plugins().target("windows-x64", overrides), context)
    assert said in caught.value.message and todo in (caught.value.hint or "")


def signed_by(command: str, program: bytes, context: HostContext, folder: Path) -> Path:
    target = load_plugins().target("windows-x64", [f"authenticode={command}"])
    (folder / "unsigned.exe").write_bytes(program)
    layout = layout_of(target, {"serve": False, **target.options}, context=context)
    sign_file(folder / "unsigned.exe", folder / "embed.exe", layout=layout)
    return folder / "embed.exe"


@pytest.mark.tools("zig", "sh", may=("clang", "ld.lld", "true"))
@needs_zig
def test_a_target_s_own_command_signs_the_program(
    context: HostContext, laid_out: bytes, tmp_path: Path
) -> None:
    """Before the manifest is made, which has the program's digest."""
    (tmp_path / "signer").write_text('cat "$1" > "$2"; printf signature >> "$2"\n')
    done = signed_by(f"sh {tmp_path}/signer {{unsigned}} {{signed}}", laid_out, context, tmp_path)
    assert done.read_bytes() == laid_out + b"signature" and not is_signed(laid_out)
    done.unlink()
    with pytest.raises(TargetError, match=r"true signed nothing"):
        signed_by("true {unsigned} {signed}", laid_out, context, tmp_path)


def test_a_library_by_itself_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "lib"
    made = CliRunner().invoke(cli, ["runtime", "lib", "--target", "windows-x64", "--output", str(place)])
    assert isinstance(made.exception, UsageError), made.output
    assert "there are no runtime libraries for Windows" in made.exception.message
    assert not place.exists()


@pytest.mark.tools("zig")
@needs_zig
def test_what_is_compiled_for_it_is_told_from_linux_own(
    context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEPACK_TOOLCHAIN", "zig")
    ours = choose(Platform(os="windows", arch="x86_64"), context=context)
    theirs = choose(Platform(os="linux", arch="x86_64", libc="musl"), context=context)
    assert ours.platform == theirs.platform == TARGET
    assert ours.identity == theirs.identity.replace(", x86", ", kernel32, x86") != theirs.identity
    assert {*FLAGS} <= {*ours.command("CXX")} and not {*FLAGS} & {*theirs.command("CXX")}
    assert ours.revision and ours.revision != theirs.revision


def linked(folder: Path, text: str, *flags: str, lists: Sequence[str] = ("imports",)) -> Path:
    """A program without musl: what lists of imports and a source give."""
    zig = zig_program()
    (folder / "main.c").write_text(text)
    compiler = [
        str(zig),
        "clang",
        "-target",
        TARGET,
        *FLAGS,
        "-nostdinc",
        f"-isystem{zig.parent}/lib/include",
    ]
    compiler += ["-O1", "-fPIC", "-ffreestanding", "-ffunction-sections", "-fdata-sections", f"-I{CSRC}"]
    objects = [folder / f"{name}.o" for name in ("main", *lists)]
    wanted = [folder / "main.c", *(CSRC / f"{name}.c" for name in lists)]
    for source, made in zip(wanted, objects, strict=True):
        subprocess.run([*compiler, "-c", source, "-o", made], check=True)
    program = folder / "program"
    subprocess.run([zig, "ld.lld", *LINK, *flags, "-o", program, *objects], check=True)
    return program


@pytest.fixture(scope="module", params=["rela", "relr"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With its relocations listed, and packed."""
    packed = ["--pack-dyn-relocs=relr"] if request.param == "relr" else []
    return linked(tmp_path_factory.mktemp("windows"), PROGRAM, *packed)


@pytest.fixture(scope="module")
def laid_out(program: Path) -> bytes:
    require_no_thread_register(program)
    return windows_program(program.read_bytes(), name="program.exe")


def header(program: bytes) -> Mapping[str, int]:
    (at,) = struct.unpack_from("<I", program, 0x3C)
    optional = at + 24
    named = {"sections": ("<H", at + 6), "entry": ("<I", optional + 16), "base": ("<Q", optional + 24)}
    named |= {"size": ("<I", optional + 56), "headers": ("<I", optional + 60), "flags": ("<H", optional + 70)}
    named |= {"relocations": ("<I", optional + 112 + 40), "relocated": ("<I", optional + 112 + 44)}
    found = {name: struct.unpack_from(form, program, place)[0] for name, (form, place) in named.items()}
    return {**found, "table": optional + 240}


def sections(program: bytes) -> list[tuple[str, int, int, int, int, int]]:
    """Name, size, address, size in the file, place in the file, flags."""
    facts = header(program)
    rows = struct.iter_unpack(
        "<8sIIII12xI", program[facts["table"] : facts["table"] + 40 * facts["sections"]]
    )
    return [(name.rstrip(b"\0").decode(), *rest) for name, *rest in rows]


@pytest.mark.tools(may=("zig", "clang", "ld.lld"))
@needs_zig
def test_sections_follow_one_another_and_none_is_writable_code(laid_out: bytes) -> None:
    facts, rows = header(laid_out), sections(laid_out)
    assert [row[0] for row in rows] == [".rdata", ".text", ".rdata", ".data", ".idata", ".reloc"]
    end = PAGE
    for _, size, address, in_file, place, flags in rows:
        assert address == end, "Windows loads no file with gaps"
        end = -(-(address + size) // PAGE) * PAGE
        assert in_file <= -(-size // 0x200) * 0x200 and place % 0x200 == in_file % 0x200 == 0
        assert flags & 0xA0000000 != 0xA0000000, "written to and executed"
    assert facts["size"] == end and facts["base"] == BASE
    code = next(row for row in rows if row[0] == ".text")
    assert code[2] <= facts["entry"] < code[2] + code[1]
    # Anywhere in 64 bits, and nothing executed but code.
    assert facts["flags"] & 0x160 == 0x160


@pytest.mark.tools(may=("zig", "clang", "ld.lld"))
@needs_zig
def test_every_address_is_relocated(laid_out: bytes) -> None:
    facts, rows = header(laid_out), sections(laid_out)

    def memory(address: int, size: int) -> bytes:
        _, _, start, _, place, _ = next(row for row in rows if row[2] <= address < row[2] + row[1])
        return laid_out[place + address - start : place + address - start + size]

    data = memory(facts["relocations"], facts["relocated"])
    places, at = [], 0
    while at < len(data):
        page, size = struct.unpack_from("<II", data, at)
        entries = struct.unpack_from(f"<{(size - 8) // 2}H", data, at + 8)
        places += [page + (entry & 0xFFF) for entry in entries if entry >> 12 == 10]
        at += size
    found = [struct.unpack("<Q", memory(place, 8))[0] - BASE for place in places]
    texts = {b"laid out\n": False, b"other\n": False}
    for text in texts:
        texts[text] = any(memory(address, len(text)) == text for address in found)
    assert texts == {b"laid out\n": True, b"other\n": True}
    assert len(places) == len(set(places)) == len(texts)


@pytest.mark.tools(may=("zig", "clang", "ld.lld"))
@needs_zig
def test_what_is_imported_is_listed_and_limited(laid_out: bytes) -> None:
    found = imports_of(laid_out)
    assert set(found) == {"KERNEL32.dll", "api-ms-win-core-synch-l1-2-0.dll"}
    assert found["api-ms-win-core-synch-l1-2-0.dll"] == (
        "WaitOnAddress",
        "WakeByAddressAll",
        "WakeByAddressSingle",
    )
    assert {"CreateFileW", "WriteFile", "TerminateProcess"} <= {*found["KERNEL32.dll"]}
    require_imports(laid_out, name="program.exe")
    with pytest.raises(BundleError, match=r"program.exe would need nernel32.dll of its device"):
        require_imports(laid_out.replace(b"KERNEL32.dll", b"NERNEL32.dll"), name="program.exe")
    for wrong in (b"", b"MZ", laid_out[:500], b"\x7fELF" + bytes(100)):
        with pytest.raises(ValueError):
            imports_of(wrong)


@pytest.mark.tools(may=("zig", "clang", "ld.lld"))
@needs_zig
@pytest.mark.parametrize("lists", [("imports", "imports_ws2"), ("imports_ws2", "imports")])
def test_sockets_are_imported_where_they_are_asked_for(tmp_path: Path, lists: tuple[str, ...]) -> None:
    """In whichever order the linker meets the two lists."""
    text = PROGRAM.replace('#include "win32.h"', '#include "ws2.h"')
    text = text.replace("&done, NULL);", "&done, NULL);\n\tws2.closesocket(ws2.socket(2, 1, 0));")
    laid_out = windows_program(linked(tmp_path, text, lists=lists).read_bytes(), name="program.exe")
    found = imports_of(laid_out)
    assert {"GetStdHandle", "TerminateProcess"} <= {*found["KERNEL32.dll"]}
    assert {"WSAStartup", "closesocket", "socket"} <= {*found["WS2_32.dll"]}
    assert len(found) == 3 and all(all(names) for names in found.values())
    require_imports(laid_out, name="program.exe", serves=True)
    with pytest.raises(BundleError, match=r"program.exe would need ws2_32.dll of its device"):
        require_imports(laid_out, name="program.exe")


@pytest.mark.tools(may=("zig", "clang", "ld.lld"))
@needs_zig
def test_code_that_reads_linux_thread_register_is_refused(tmp_path: Path, program: Path) -> None:
    reading = PROGRAM.replace(
        "uint32_t done = 0;", 'uint32_t done; __asm__("movl %%fs:40, %0" : "=r"(done));'
    )
    with pytest.raises(BundleError, match=r"reads .*fs:\[0x28\] at 0x[0-9a-f]+ \(mov\), which is nothing"):
        require_no_thread_register(linked(tmp_path, reading))


@pytest.mark.tools(may=("zig", "clang", "ld.lld"))
@needs_zig
def test_a_file_that_is_not_of_our_linking_is_refused(program: Path) -> None:
    elf = program.read_bytes()
    fewer = elf.replace(b"ExitThread\0", b"ExitThreadX")
    with pytest.raises(BundleError, match=r"\d+ names for \d+ slots of imports"):
        windows_program(fewer, name="program.exe")
    with pytest.raises(BundleError, match=r"it has no section .bss.rel.ro"):
        windows_program(elf.replace(b".bss.rel.ro\0", b".bss.rel.rx\0"), name="program.exe")


@pytest.mark.tools(may=("zig", "clang", "ld.lld", "env", "wine64"))
@needs_zig
def test_it_runs_under_wine(shared_context: HostContext, laid_out: bytes, tmp_path: Path) -> None:
    required_wine()
    file = tmp_path / "program.exe"
    file.write_bytes(laid_out)
    file.chmod(0o755)
    emulator = find_system("windows", file, context=shared_context)
    assert emulator is not None and emulator.version.endswith(", not Windows")
    command = ["env", "-i", *emulator.command("x86_64"), file]
    done = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (42, b"laid out\n", b"")


def test_only_programs_of_its_system_are_run_by_wine(context: HostContext, tmp_path: Path) -> None:
    script, program = tmp_path / "script", tmp_path / "program.exe"
    script.write_text("#!/bin/sh\n")
    program.write_bytes(b"MZ")
    assert find_system("windows", script, context=context) is None
    assert find_system("windows", tmp_path / "nothing", context=context) is None
    assert find_system("linux", program, context=context) is None
    assert find_system("web", program, context=context) is None


def test_without_wine_it_is_said_what_to_install(
    context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wine, "PROGRAMS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "program.exe"
    program.write_bytes(b"MZ")
    for machine, said in (("x86_64", "libwine_8.0~repack-4_amd64.deb"), ("aarch64", "")):
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        with pytest.raises(MissingToolError, match=f"^wine is not installed.*{said}") as caught:
            find_system("windows", program, context=context)
        assert caught.value.hint == wine.HINT
        for build in (builder, encoders):
            missing = {*build.missing(load_plugins().target("windows-x64"))}
            assert ("wine64" in missing) == (machine == "aarch64")
