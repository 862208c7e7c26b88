"""What `edgepack runtime` asks about browsers."""

from pathlib import Path

import pytest
from tests.support.command import edgepack

from edgepack.errors import BundleError, MissingToolError, UsageError
from edgepack.foundry.platform import RuntimeOptions
from edgepack.foundry.platforms import find_platform, platform_on
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.runtimes.find import platform_of, release_for
from edgepack.runtimes.standalone import fit, library_options, make_library, prove_again
from edgepack_web.foundry.platform import WebPlatform
from edgepack_web.foundry.toolchain import WEB_RELEASE

pytestmark = pytest.mark.tools("python")


@pytest.fixture
def module(tmp_path: Path) -> Path:
    file = tmp_path / "ort.wasm"
    file.write_bytes(b"\0asm\1\0\0\0")
    return file


def test_browsers_are_a_platform() -> None:
    known = load_plugins().extensions("platform")
    device, found = platform_on("wasm32", known)
    assert (device.os, found.next_step) == ("web", WebPlatform().next_step)
    assert find_platform(device, known).next_step == WebPlatform().next_step
    assert release_for("1.21.0", "wasm32", known) == WEB_RELEASE


def test_nothing_emulates_webassembly(context: HostContext) -> None:
    with pytest.raises(MissingToolError, match="WebAssembly is not emulated"):
        find_emulator("wasm32", context=context)


def test_a_target_for_browsers() -> None:
    options = library_options(
        "web-wasm", recipe=None, kind=None, glibc=None, threads=True, host=load_plugins()
    ).runtime
    assert (options.platform.arch, options.kind, options.features) == ("wasm32", "minimal", ("threads",))
    WebPlatform().check(options)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"kind": "full"}, "there are no full runtimes for wasm32"), ({"glibc": "2.28"}, "needs no C library")],
)
def test_what_browsers_have_not(
    context: HostContext, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    asked = {"recipe": None, "kind": None, "glibc": None, **options}
    made = library_options("web-wasm", host=load_plugins(), **asked)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=said):
        make_library([None], options=made, platform=WebPlatform(), output=tmp_path / "out", context=context)


def test_a_module_is_proved_with_its_script_and_fits_by_its_operators(
    context: HostContext, module: Path
) -> None:
    model = module.with_name("model.ort")
    model.write_bytes(b"ORTM")
    platform = platform_of(module, load_plugins().extensions("platform"))
    assert platform.next_step == WebPlatform().next_step
    with pytest.raises(BundleError, match=r"should lie its JavaScript, ort\.mjs"):
        prove_again(module, model, platform=platform, levels="here", context=context)
    with pytest.raises(BundleError, match=r"no required_operators_and_types\.config lies beside it"):
        fit(module, model, platform=platform, context=context)


def test_a_module_is_taken_apart_by_its_own_sections(module: Path) -> None:
    done = edgepack("runtime", "explain", str(module))
    assert done.returncode == 0
    assert "headers of sections" in done.stdout


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--threads"], "--threads is for platforms without"),
        (["--arch", "wasm32", "--kind", "full"], "there are no full runtimes for wasm32"),
        (["--arch", "wasm32", "--glibc", "2.28"], "needs no C library"),
        (["--arch", "wasm64"], "no runtime can be made for wasm64 (did you mean wasm32?)"),
    ],
)
def test_what_there_is_no_archive_of(options: list[str], said: str) -> None:
    done = edgepack("runtime", "export", "--offline", *options)
    assert done.returncode == 2
    assert said in done.stderr


def test_threads_are_an_option_of_what_is_compiled() -> None:
    assert RuntimeOptions(threads=True, ml=True).features == ("ml", "threads")
