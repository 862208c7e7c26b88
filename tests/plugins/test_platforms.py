"""Platforms that plugins bring: who is asked for a target, and who is blamed for what is wrong."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edgepack.cli import cli
from edgepack.context import Extension
from edgepack.errors import EdgepackError, PluginError, TargetError, UsageError
from edgepack.foundry.feature_levels import FeatureLevel
from edgepack.foundry.platform import RuntimePlatform
from edgepack.foundry.platforms import find_platform, made_platform
from edgepack.foundry.processors.registry import find_processor
from edgepack.foundry.processors.x86_64 import X86_64
from edgepack.foundry.proof.emulator import Qemu, find_emulator
from edgepack.foundry.toolchains.choose import choose
from edgepack.foundry.toolchains.glibc import Glibc
from edgepack.foundry.toolchains.zig import Zig
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.runtime import LevelProof, RuntimeArtifact
from edgepack.records.target import Platform, Target
from edgepack.runtimes.find import require_runtime
from edgepack.runtimes.linux import LinuxPlatform

ABACUS = replace(
    X86_64,
    name="abacus",
    triple="abacus-linux-gnu",
    oldest_glibc="2.30",
    levels=(FeatureLevel(name="beads", flags=frozenset(), emulated="wood"),),
)
DEVICE = Platform(os="linux", arch="abacus")


def extension(make: Callable[[], Any]) -> Extension:
    return Extension(name="kiosk", summary="", plugin="kiosk", identity="kiosk 1, revision 1", make=make)


def brought(platform: object) -> dict[str, Extension]:
    """What is known where a plugin brings this platform, too."""
    return {**load_plugins().extensions("platform"), "kiosk": extension(lambda: platform)}


def bringing(platform: object, context: HostContext) -> Any:
    """A context in which a plugin brings this platform."""

    class Bringing:
        def __getattr__(self, name: str) -> Any:
            return getattr(context, name)

        def extensions(self, axis: str) -> Mapping[str, Extension]:
            return brought(platform)

    return Bringing()


def test_a_processor_that_a_plugin_knows(context: HostContext) -> None:
    known = brought(LinuxPlatform(processor=ABACUS))
    assert find_platform(DEVICE, known).processor == ABACUS
    within = bringing(LinuxPlatform(processor=ABACUS), context)
    assert find_processor("abacus", context=within) == ABACUS
    assert find_processor("abacus", context=context) is None
    require_runtime(DEVICE, context=within)
    with pytest.raises(UsageError, match=r"glibc 2\.28 on abacus, which 2\.30 is the first for"):
        require_runtime(replace(DEVICE, glibc="2.28"), context=within)
    with pytest.raises(UsageError, match="unknown CPU feature: beads on abacus"):
        require_runtime(replace(DEVICE, isa=("beads",)), context=within)


def test_who_brings_what_is_said_to_those_who_ask_for_something_else() -> None:
    known = brought(LinuxPlatform(processor=ABACUS))
    with pytest.raises(UsageError) as caught:
        find_platform(Platform(os="linux", arch="ppc64le"), known)
    assert caught.value.message == (
        "no runtime can be made for linux on ppc64le, only for "
        "linux on x86_64, aarch64, armv7l (plugin armv7), x86_64 with musl (plugin musl), aarch64 with musl (plugin musl), "
        "armv7l with musl (plugin musl), "
        "riscv64 (plugin riscv64), abacus (plugin kiosk); "
        "macos on aarch64 (plugin engine), x86_64 (plugin engine); web on wasm32 (plugin web); windows on x86_64 (plugin windows)"
    )


@pytest.mark.tools("zig")
def test_it_is_compiled_for(context: HostContext) -> None:
    pytest.importorskip("ziglang")
    toolchain = choose(DEVICE, context=bringing(LinuxPlatform(processor=ABACUS), context))
    assert isinstance(toolchain, Zig) and toolchain.platform == "abacus-linux-gnu.2.28"
    assert toolchain.arch == "abacus"


class Musl:
    """A platform whose toolchain and emulator are its own."""

    os, libc, architectures, processor = "linux", "musl", ("x86_64", "abacus"), None
    release = form = next_step = None
    asked: Any = None

    def check(self, options: Any) -> None:
        if options.kind != "minimal":
            raise UsageError(f"no {options.kind} runtimes")

    def toolchain(self, options: Any, *, context: Any) -> Any:
        self.asked = options
        return Zig(program=Path("/zig"), version="0", processor=X86_64, libc=Glibc(glibc="2.28"))

    def recognizes(self, file: Path) -> bool:
        return False

    def emulator(self, *, context: Any) -> Any:
        return Qemu(program=Path("/wood"), version="1", libc=None, name="wood")

    def lay(self, runtime: Any, folder: Any, *, context: Any) -> None: ...
    def reduce(self, needs: Any, options: Any, *, context: Any) -> Any: ...
    def prove(self, model: Any, runtime: Any, *, levels: Any, context: Any) -> Any: ...
    def prove_file(self, model: Any, library: Any, *, levels: Any, context: Any) -> Any: ...
    def try_model(self, library: Any, model: Any, *, context: Any) -> Any: ...


def test_another_c_library_has_a_platform_of_its_own(context: HostContext) -> None:
    musl = Musl()
    within = bringing(musl, context)
    device = Platform(os="linux", arch="abacus", libc="musl")
    require_runtime(device, context=within)
    with pytest.raises(UsageError, match="no full runtimes"):
        require_runtime(device, kind="full", context=within)
    assert choose(device, context=within).identity == "zig 0, x86_64-linux-gnu.2.28"
    assert musl.asked.platform == device
    assert find_platform(Platform(os="linux", arch="x86_64"), brought(musl)).libc == "glibc"
    with pytest.raises(
        UsageError, match=r"x86_64 with musl \(plugin kiosk\), abacus with musl \(plugin kiosk\)"
    ):
        find_platform(Platform(os="linux", arch="riscv64", libc="musl"), brought(musl))


def test_it_brings_its_emulator(context: HostContext) -> None:
    emulator = find_emulator("abacus", context=bringing(Musl(), context))
    assert (emulator.name, emulator.version) == ("wood", "1")


def broken(**members: Any) -> type:
    return type("Broken", (Musl,), members)


def returning(value: object) -> Callable[..., object]:
    return lambda self, *_, **__: value


RUNTIME = RuntimeArtifact(library=None, version="1", kind="minimal", provides=None, toolchain="")
PROOF = LevelProof(level="beads", proved=True)
TO_PROVE: Any = {"levels": "here", "context": None}
CALLS: Mapping[str, Callable[[RuntimePlatform], object]] = {
    "os": lambda platform: platform.os,
    "libc": lambda platform: platform.libc,
    "architectures": lambda platform: platform.architectures,
    "processor": lambda platform: platform.processor,
    "release": lambda platform: platform.release,
    "form": lambda platform: platform.form,
    "next_step": lambda platform: platform.next_step,
    "check": lambda platform: platform.check(None),  # type: ignore[arg-type]
    "toolchain": lambda platform: platform.toolchain(None, context=None),  # type: ignore[arg-type]
    "reduce": lambda platform: platform.reduce(None, None, context=None),  # type: ignore[arg-type]
    "recognizes": lambda platform: platform.recognizes(Path()),
    "prove": lambda platform: platform.prove(None, RUNTIME, **TO_PROVE),  # type: ignore[arg-type]
    "prove_file": lambda platform: platform.prove_file(Path(), Path(), **TO_PROVE),
    "try_model": lambda platform: platform.try_model(Path(), Path(), context=None),  # type: ignore[arg-type]
    "emulator": lambda platform: platform.emulator(context=None),  # type: ignore[arg-type]
    "lay": lambda platform: platform.lay(RUNTIME, Path(), context=None),  # type: ignore[arg-type]
}
WRONG = [
    ({"os": ""}, "os of its platform is '', expected a name"),
    ({"os": 5}, "os of its platform is 5, expected a name"),
    ({"libc": "glib"}, "libc of its platform is 'glib', expected glibc, musl or None"),
    ({"architectures": ()}, "architectures of its platform is (), expected names of processors"),
    ({"architectures": "abacus"}, "architectures of its platform is 'abacus', expected names of processors"),
    ({"architectures": (1,)}, "architectures of its platform is (1,), expected names of processors"),
    ({"processor": "abacus"}, "processor of its platform is 'abacus', expected a Processor or None"),
    ({"release": "1.21.0"}, "release of its platform is '1.21.0', expected a Release"),
    ({"release": property(lambda self: 1 / 0)}, "failed in release: ZeroDivisionError: division by zero"),
    ({"form": None}, "form of its platform is None, expected a Form"),
    ({"next_step": None}, "next_step of its platform is None, expected a line"),
    ({"check": returning("no")}, "check of its platform is 'no', expected nothing"),
    ({"toolchain": returning("zig")}, "toolchain of its platform is 'zig', expected a Toolchain"),
    ({"toolchain": returning(None)}, "toolchain of its platform is None, expected a Toolchain"),
    ({"reduce": returning(Path("lib.so"))}, "reduce of its platform is PosixPath('lib.so'), expected a RuntimeArtifact"),
    ({"reduce": lambda self, *_, **__: 1 / 0}, "failed in reduce: ZeroDivisionError: division by zero"),
    ({"recognizes": returning(None)}, "recognizes of its platform is None, expected true or false"),
    ({"prove": returning(None)}, "prove of its platform is None, expected a tuple of LevelProofs"),
    ({"prove": returning([PROOF])}, "prove of its platform is [LevelProof("),
    ({"prove_file": returning((1.0,))}, "prove_file of its platform is (1.0,), expected a tuple of LevelProofs"),
    ({"try_model": returning(True)}, "try_model of its platform is True, expected a Fit"),
    ({"emulator": returning("qemu")}, "emulator of its platform is 'qemu', expected an Emulator"),
    ({"emulator": returning(None)}, "emulator of its platform is None, expected an Emulator"),
    ({"lay": returning(3)}, "lay of its platform is 3, expected nothing"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("members", "said"), WRONG, ids=lambda each: next(iter(each)) if isinstance(each, dict) else ""
)
def test_a_wrong_answer_is_the_plugins(members: Mapping[str, Any], said: str) -> None:
    (name,) = members
    with pytest.raises(PluginError, match="plugin kiosk") as caught:
        CALLS[name](made_platform(extension(broken(**members))))
    assert said in caught.value.message


def test_what_is_raised_on_purpose_is_no_fault() -> None:
    def refuse(self: object, options: object) -> None:
        raise EdgepackError("beads are missing")

    with pytest.raises(EdgepackError, match="beads are missing") as caught:
        made_platform(extension(broken(check=refuse))).check(None)  # type: ignore[arg-type]
    assert not isinstance(caught.value, PluginError)


def test_what_is_no_platform_at_all() -> None:
    with pytest.raises(PluginError, match="what platform kiosk makes has no os, libc, architectures"):
        made_platform(extension(object))


def test_one_that_does_not_say_for_whom_it_is_stops_nobody_else() -> None:
    known = {
        "kiosk": extension(broken(os=property(lambda self: 1 / 0))),
        "abacus": extension(lambda: LinuxPlatform(processor=ABACUS)),
    }
    assert find_platform(DEVICE, known).processor == ABACUS
    with pytest.raises(UsageError, match="linux on s390x, only for linux on abacus") as caught:
        find_platform(Platform(os="linux", arch="s390x"), known)
    assert "plugin kiosk failed in os: ZeroDivisionError" in str(caught.value.hint)


def test_one_that_cannot_be_made_stops_nobody_else_and_is_named_to_those_who_miss_it() -> None:
    def fail() -> None:
        raise PluginError("plugin kiosk failed in make of platform kiosk: RuntimeError: no compiler")

    known = {**load_plugins().extensions("platform"), "kiosk": extension(fail)}
    assert find_platform(Platform(os="linux", arch="aarch64"), known).architectures == ("aarch64",)
    with pytest.raises(UsageError, match="linux on abacus") as caught:
        find_platform(DEVICE, known)
    assert "a broken plugin may have brought it: plugin kiosk failed in make" in str(caught.value.hint)


MUSL = """
schema = 1
builder = "linux"
[platform]
os = "linux"
arch = "riscv64"
libc = "musl"
"""


@pytest.mark.parametrize("command", ["bundle", "fetch"])
def test_devices_of_nobody_are_refused_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (tmp_path / "musl.toml").write_text(MUSL)
    monkeypatch.setenv("EDGEPACK_CACHE", str(tmp_path / "cache"))
    done = CliRunner().invoke(cli, [command, "--target", str(tmp_path / "musl.toml")])
    assert isinstance(done.exception, UsageError)
    assert "no runtime can be made for linux on riscv64 with musl, only for linux on x86_64" in str(
        done.exception
    )
    assert not list((tmp_path / "cache").rglob("*.safetensors")) and "model" not in done.output


def test_a_builder_whose_files_need_glibc_is_for_no_other_devices(context: HostContext) -> None:
    host = load_plugins()
    with pytest.raises(TargetError, match="builder cuda makes bundles for devices with glibc, not with musl"):
        host.create(replace_platform(host.target("linux-x64-cuda"), libc="musl"), context)


def replace_platform(target: Target, **changes: Any) -> Target:
    return replace(target, platform=replace(target.platform, **changes))
