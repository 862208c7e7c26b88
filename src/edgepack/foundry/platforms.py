"""Which platform makes runtimes for a device: those that plugins bring, edgepack's own among them, asked in turn."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from edgepack.context import Extension, perhaps_broken
from edgepack.errors import PluginError, UsageError
from edgepack.foundry.platform import RuntimePlatform
from edgepack.foundry.processor import Processor
from edgepack.foundry.release import Release
from edgepack.plugins.blame import Blamed
from edgepack.records.runtime import LevelProof, RuntimeArtifact
from edgepack.records.target import Platform
from edgepack.terminal_text import did_you_mean

DEFAULT_LIBC = {"linux": "glibc"}
"""Operating system → the C library of its devices, where a target names none."""
OWN = "edgepack"
"""The plugin that brings edgepack's own."""
_ANOTHER = "a plugin can bring another platform (docs/plugins.md)"


def platforms(extensions: Mapping[str, Extension]) -> Sequence[tuple[Extension, RuntimePlatform]]:
    """Each with who brings it, edgepack's own first; without those that their plugins fail to make."""
    return _made(extensions)[0]


def _made(
    extensions: Mapping[str, Extension],
) -> tuple[list[tuple[Extension, RuntimePlatform]], list[PluginError]]:
    """The platforms, and what is wrong with those that cannot be made: one broken plugin stops nobody else."""
    found, wrong = [], []
    for extension in sorted(extensions.values(), key=lambda each: each.plugin != OWN):
        try:
            found.append((extension, made_platform(extension)))
        except PluginError as error:
            wrong.append(error)
    return found, wrong


def made_platform(extension: Extension) -> RuntimePlatform:
    """The platform, whose answers are checked. Raises ``PluginError``."""
    made = extension.make()
    if lacking := [name for name in (*_PROPERTIES, *_METHODS) if name not in dir(made)]:
        raise PluginError(
            f"plugin {extension.plugin}: what platform {extension.name} makes has no {', '.join(lacking)}",
            hint="a platform has the members of edgepack.api.axes.RuntimePlatform",
        )
    platform = _Checked(extension.plugin, made)
    for name in _SAY_FOR_WHOM:
        getattr(platform, name)
    return cast("RuntimePlatform", platform)


def find_platform(device: Platform, extensions: Mapping[str, Extension]) -> RuntimePlatform:
    """Who makes runtimes for a target's devices. Raises ``UsageError`` naming those that there are runtimes for."""
    libc = device.libc or DEFAULT_LIBC.get(device.os)
    known, wrong = _made(extensions)
    for _, found in known:
        if (found.os, found.libc) == (device.os, libc) and device.arch in found.architectures:
            return found
    others = [name for _, found in known if found.os == device.os for name in found.architectures]
    with_libc = f" with {libc}" if device.arch in others else did_you_mean(device.arch, others)
    raise UsageError(
        f"no runtime can be made for {device.os} on {device.arch}{with_libc}, only for {_in_words(known)}",
        hint=_hint(wrong, extensions),
    )


def platform_on(arch: str, extensions: Mapping[str, Extension]) -> tuple[Platform, RuntimePlatform]:
    """The devices with such processors, and who makes runtimes for them. Raises ``UsageError``."""
    known, wrong = _made(extensions)
    for _, found in known:
        if arch in found.architectures:
            return Platform(os=found.os, arch=arch), found
    every = [name for _, found in known for name in found.architectures]
    raise UsageError(
        f"no runtime can be made for {arch}{did_you_mean(arch, every)}, only for {_in_words(known)}",
        hint=_hint(wrong, extensions),
    )


def _hint(wrong: Sequence[PluginError], extensions: Mapping[str, Extension]) -> str:
    """Hint of those that could not be made, or of plugins."""
    broken = "; ".join(error.message for error in wrong)
    hint = f"a broken plugin may have brought it: {broken}" if wrong else _ANOTHER
    return hint + perhaps_broken(extensions)


def _in_words(known: Sequence[tuple[Extension, RuntimePlatform]]) -> str:
    """``linux on x86_64, aarch64, riscv64 (plugin riscv64), web on wasm32 (plugin web)``."""
    by_os: dict[str, list[str]] = {}
    for extension, found in known:
        libc = "" if found.libc == DEFAULT_LIBC.get(found.os) else f" with {found.libc}"
        by = f" (plugin {extension.plugin})" if extension.plugin != OWN else ""
        by_os.setdefault(found.os, []).extend(f"{name}{libc}{by}" for name in found.architectures)
    return "; ".join(f"{name} on {', '.join(found)}" for name, found in by_os.items())


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_proofs(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, LevelProof) for each in value)


def _is_toolchain(value: object) -> bool:
    # Or a ``ProgramMaker``.
    return _has("identity", "command", "symbols")(value) or _has("identity", "make_program")(value)


def _has(*names: str) -> Callable[[object], bool]:
    return lambda value: all(hasattr(value, name) for name in names)


_Check = tuple[str, Callable[[Any], bool]]
_SAY_FOR_WHOM = ("os", "libc", "architectures", "processor")
"""Asked of every platform when one is looked for: a wrong answer to these must not stop who looks for another."""
_PROPERTIES: Mapping[str, _Check] = {
    "os": ("a name", _is_text),
    "libc": ("glibc, musl or None", lambda value: value in ("glibc", "musl", None)),
    "architectures": (
        "names of processors",
        lambda value: isinstance(value, (tuple, list)) and bool(value) and all(map(_is_text, value)),
    ),
    "processor": ("a Processor or None", lambda value: value is None or isinstance(value, Processor)),
    "release": ("a Release", lambda value: isinstance(value, Release)),
    "form": ("a Form", _has("layout")),
    "next_step": ("a line", _is_text),
}
_METHODS: Mapping[str, _Check] = {
    "check": ("nothing", lambda value: value is None),
    "toolchain": ("a Toolchain", _is_toolchain),
    "reduce": ("a RuntimeArtifact", lambda value: isinstance(value, RuntimeArtifact)),
    "recognizes": ("true or false", lambda value: isinstance(value, bool)),
    "prove": ("a tuple of LevelProofs", _is_proofs),
    "prove_file": ("a tuple of LevelProofs", _is_proofs),
    "try_model": ("a Fit", _has("fits", "missing")),
    "emulator": ("an Emulator", _has("name", "version", "command")),
    "lay": ("nothing", lambda value: value is None),
}


class _Checked(Blamed):
    """A platform whose answers are of the kinds that ``RuntimePlatform`` says."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        return self._of_kind(name, found, _PROPERTIES[name]) if name in _PROPERTIES else found

    def _call(self, name: str, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        answer = super()._call(name, method, *arguments, **named)
        return self._of_kind(name, answer, _METHODS[name]) if name in _METHODS else answer

    def _of_kind(self, name: str, value: Any, check: _Check) -> Any:
        words, fits = check
        if not fits(value):
            raise PluginError(
                f"plugin {self._plugin}: {name} of its platform is {repr(value)[:80]}, expected {words}"
            )
        return value
