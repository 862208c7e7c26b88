"""The toolchain: what it is said to fetch, what is said where it cannot be had, and the programs that stand for LLVM's."""

import errno
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.small_archive import request
from tests.support.wasm_modules import custom, module, plus

from edgepack.errors import DiskFullError, MissingToolError, ToolError
from edgepack.plugins.context import HostContext
from edgepack_web.foundry.api import DIRECT_API, EXPORTS, direct_api
from edgepack_web.foundry.binary import sections
from edgepack_web.foundry.emscripten import Emscripten, emscripten, installation_plan
from edgepack_web.foundry.objcopy import SCRIPT
from edgepack_web.foundry.toolchain import EmscriptenToolchain

pytestmark = pytest.mark.tools("node", "python")


def test_what_is_fetched_is_said_before(context: HostContext) -> None:
    lines = installation_plan(context).lines()
    assert lines[0] == "fetches 3 of Debian's packages, 243 MB, and binaryen's C library:"
    assert any("emscripten_3.1.69" in line for line in lines)
    assert str(context.store.root / "emscripten") in lines[-1]


def test_without_a_network_the_stock_runtime_is_offered(context: HostContext) -> None:
    with pytest.raises(MissingToolError, match="Emscripten is not available here") as caught:
        emscripten(context=context)
    assert '"stock"' in str(caught.value.hint)
    assert not list((context.store.root / "emscripten").glob("*")), "nothing half-made is left"


def _wrong_package(packages: object, destination: Path, *, context: HostContext) -> None:
    destination.mkdir(parents=True, exist_ok=True)
    for name in ("emscripten_3.1.69+dfsg-3_all.deb", "node-acorn_8.8.1+ds+~cs25.17.7-2_all.deb"):
        (destination / name).write_bytes(b"cut off")


@pytest.mark.parametrize(
    ("package", "said"),
    [
        (lambda *_, **__: None, r"emscripten_3\.1\.69.* is not available"),
        (_wrong_package, r"is not the emscripten_3\.1\.69\S+ that is pinned"),
    ],
    ids=["a mirror without the version", "a damaged package"],
)
def test_a_package_that_cannot_be_had_leaves_nothing_behind(
    context: HostContext, monkeypatch: pytest.MonkeyPatch, package: Callable[..., None], said: str
) -> None:
    monkeypatch.setattr("edgepack.foundry.sources.pinned.fetch_packages", package)
    with pytest.raises(MissingToolError, match=said) as caught:
        emscripten(context=replace(context, offline=False))
    assert '"stock"' in str(caught.value.hint)
    assert not list((context.store.root / "emscripten").glob("*"))
    assert not list((context.store.root / "sources").rglob("*.deb"))


def test_without_apt_the_stock_runtime_is_offered(
    context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> Path:
        raise MissingToolError(f"{name} is not installed")

    monkeypatch.setattr("edgepack.fetch.debian.tools.find", find)
    monkeypatch.setattr("edgepack_web.foundry.emscripten.find_node", lambda: Path("node"))
    with pytest.raises(MissingToolError, match="apt-get is not installed") as caught:
        emscripten(context=replace(context, offline=False))
    assert '"stock"' in str(caught.value.hint)


def test_without_node_it_says_so_before_anything_is_fetched(
    context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgepack_web.npm.node.is_installed", lambda name: False)
    with pytest.raises(MissingToolError, match="Node 20 or newer is not installed") as caught:
        emscripten(context=context)
    assert "edgepack[web]" in str(caught.value.hint)
    assert not (context.store.root / "sources").exists()


def test_a_full_disk_leaves_nothing_half_made(context: HostContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    module = "edgepack_web.foundry.emscripten"
    monkeypatch.setattr(f"{module}.fetch_archives", lambda *_, **__: [Path("package.deb")])
    monkeypatch.setattr(f"{module}._runtime_packages", lambda *_: [])
    monkeypatch.setattr(f"{module}.unpack_download", full)
    with pytest.raises(DiskFullError):
        emscripten(context=context)
    assert not list((context.store.root / "emscripten").glob("*"))


def test_on_another_machine_the_stock_runtime_is_offered(
    context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(MissingToolError, match="is known for this machine") as caught:
        emscripten(context=context)
    assert '"stock"' in str(caught.value.hint)


def test_objcopy_leaves_out_the_sections_that_are_named(tmp_path: Path) -> None:
    extra = [custom(".debug_info", b"x"), custom(".debug_line"), custom("producers"), custom("name", b"\0\0")]
    (tmp_path / "in.wasm").write_bytes(module([plus(1)], {"f": 0}, extra=extra))
    (tmp_path / "objcopy.py").write_text(SCRIPT)
    command = [sys.executable, "objcopy.py", "in.wasm", "out.wasm"]
    flags = ["--remove-section=.debug*", "--remove-section=producers"]
    subprocess.run([*command, *flags], check=True, cwd=tmp_path)
    made = (tmp_path / "out.wasm").read_bytes()
    assert [part.name for part in sections(made) if part.id == 0] == ["name"]
    assert made == module([plus(1)], {"f": 0}, extra=extra[3:])
    refused = subprocess.run([*command, "--strip-all"], cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "cannot do" in refused.stderr


def test_clang_finds_its_own_headers_between_the_librarys(tmp_path: Path) -> None:
    tools = Emscripten(root=tmp_path, version="3.1.69", zig=tmp_path / "zig", zig_version="0.14.1")
    made = EmscriptenToolchain(tools=tools)
    assert made.identity == "emscripten 3.1.69, zig 0.14.1, wasm32"
    command = made.command("CXX")
    headers = [command[place + 1] for place, word in enumerate(command) if word == "-isystem"]
    assert headers[1:] == [
        f"{tools.sysroot}/include/c++/v1",
        f"{tmp_path}/lib/include",
        f"{tools.sysroot}/include",
    ]
    assert not any("c++" in word for word in made.command("C"))


def test_the_functions_for_javascript_call_onnx_runtime_directly() -> None:
    source = "#include <iostream>\n" + "".join(
        f"int {name}() {{ Ort::GetApi().Run(); }}\n" for name in EXPORTS
    )
    made = direct_api(source)
    assert "Ort::GetApi" not in made
    assert made.count("OrtApis::Run()") == len(EXPORTS)
    assert "iostream" not in made, "streams for the terminal would be set up when the module starts"


def test_another_release_of_these_functions_is_refused() -> None:
    with pytest.raises(ToolError, match=r"api\.cc is not as ONNX Runtime 1\.21's"):
        DIRECT_API.rewritten(
            "int OrtInit() { return Ort::GetApi().X(); }", request(), origin="ONNX Runtime 1.21"
        )
