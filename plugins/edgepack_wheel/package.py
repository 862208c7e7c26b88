"""A wheel of a bundle (https://packaging.python.org/en/latest/specifications/binary-distribution-format/).

The module has the bundle's folder in it, as it is, and ``encode``; `module/` here is its code. The distribution is called
as the model is, and so is its command, which is the bundle's program.
"""

import keyword
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from edgepack.api import BuildContext, Bundle, Target, UsageError
from edgepack.api.kit import is_static
from edgepack.bundles.packages import name_of_model, require_version, text_of_form
from edgepack.files.wheel_file import WheelMember, pack_wheel

KINDS = ("native", "pyinstaller")
"""Of programs that answer while more may be asked."""
ARCHITECTURES = ("x86_64", "aarch64", "armv7l", "riscv64")
VERSION = re.compile(
    r"(0|[1-9]\d*)(\.(0|[1-9]\d*))*((a|b|rc)(0|[1-9]\d*))?(\.post(0|[1-9]\d*))?(\.dev(0|[1-9]\d*))?"
)
"""As the version specifiers' specification writes them in their one normal form."""
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
TAKEN = re.compile(
    r"(python|pip|pypy|wheel|setuptools|numpy|scipy|torch|transformers|onnxruntime|requests|edgepack)[0-9-]*"
)
LEVEL = 9
ABIS = {"aarch64": "arm64_v8a", "x86_64": "x86_64"}
"""Android's processors in tags (PEP 738), for which a libembed needs no C library."""
OLDEST = 21
"""The first API for which there is a Python."""
LICENSES = "LICENSES/"
SBOM = "LICENSES/sbom.cdx.json"
METADATA = """Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: Text embeddings by {model}, on the processor, with no dependencies
Requires-Python: >=3.9
Description-Content-Type: text/markdown
{licenses}
```python
from {module} import encode

encode("A man is eating food.")  # a list of {dimension} numbers
encode(["one text", "another"])  # a list for each
```

{model} and the program that runs it, made by edgepack for {target}. `{name} --help` is that program.
"""
WHEEL = """Wheel-Version: 1.0
Generator: edgepack {edgepack}
Root-Is-Purelib: false
{tags}"""
COMMANDS = """[console_scripts]
{name} = {module}.__main__:main
"""


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """The packager (``edgepack.api.axes.Packager``)."""

    version: str
    name: str = ""
    """Of the distribution; empty: as its model is called."""
    android: int = 0
    """The oldest API of Android that may install it, too; 0: none may."""

    def file_name(self, bundle: Bundle) -> str:
        """E.g. ``all_minilm_l6_v2-1.0-py3-none-manylinux_2_28_x86_64.whl``. Raises ``UsageError``."""
        name = self._name(bundle)
        return f"{_module(name)}-{self.version}-py3-none-{'.'.join(self._tags(bundle))}.whl"

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the wheel; the same bundle and version give the same bytes. Raises ``UsageError``."""
        _require_fit(bundle)
        name = self._name(bundle)
        info = f"{_module(name)}-{self.version}.dist-info"
        pack_wheel(destination, info, _members(bundle, name, self.version, self._tags(bundle)), level=LEVEL)

    def _name(self, bundle: Bundle) -> str:
        """Raises ``UsageError`` for a model whose name would put its command or module in the place of Python's own, or of a package that many have."""
        if self.name:
            return self.name
        name = name_of_model(bundle)
        if TAKEN.fullmatch(name) or _module(name) in sys.stdlib_module_names:
            raise UsageError(
                f"a wheel called {name} would replace another package or command",
                hint='give it a name: [x-wheel] with name = "acme-embeddings"',
            )
        return name

    def _tags(self, bundle: Bundle) -> Sequence[str]:
        arch = bundle.manifest["target"]["platform"]["arch"]
        return (*_tags(bundle), *([f"android_{self.android}_{ABIS[arch]}"] if self.android else []))


def create_packager(target: Target) -> Wheel:
    """Raises ``UsageError`` for a platform or version that no wheel is of."""
    platform = target.platform
    if platform.os != "linux" or platform.arch not in ARCHITECTURES:
        raise UsageError(
            f"a bundle for {platform.os} on {platform.arch} is no wheel",
            hint=f"bundles for linux on {', '.join(ARCHITECTURES)} are",
        )
    require_version(target, VERSION, "a wheel, in its normal form")
    hint = 'name, the distribution\'s in its normal form, e.g. name = "acme-embeddings", and android'
    name = text_of_form(target, "wheel", "name", NAME, hint=hint, beside="android")
    android = target.extra.get("wheel", {}).get("android", 0)
    _require_android(android, target)
    return Wheel(version=target.version, name=name, android=android)


def _require_android(android: object, target: Target) -> None:
    """Raises ``UsageError`` for what is no API of Android, and for a target whose libembed Android does not load."""
    if type(android) is not int or (android and android < OLDEST):
        raise UsageError(
            f"[x-wheel] android is {android!r}",
            hint=f"it is the oldest API of Android, a number from {OLDEST} on, e.g. android = 24",
        )
    loaded = target.builder == "engine" and target.platform.arch in ABIS and target.options.get("library")
    if android and not loaded:
        raise UsageError(
            "Python on Android requires a libembed that needs no C library, which this target does not build",
            hint="--target linux-arm64-fast --set library=true, or linux-x86-fast for the emulator",
        )


def _require_fit(bundle: Bundle) -> None:
    manifest = bundle.manifest
    links = [file["path"] for file in manifest["files"] if file["mode"] == "link"]
    if links:
        raise UsageError(f"a wheel holds no symbolic links, this bundle does: {links[0]}")
    if manifest["runner"]["kind"] not in KINDS:
        raise UsageError(
            f"a wheel keeps its program open, which one of kind {manifest['runner']['kind']!r} is not known to take",
            hint=f"bundles of kind {' or '.join(KINDS)} can be wheels",
        )


def _members(bundle: Bundle, name: str, version: str, tags: Sequence[str]) -> Iterator[WheelMember]:
    """Members of the wheel; those that describe it come last, as the specification advises."""
    module, info = _module(name), f"{_module(name)}-{version}.dist-info"
    for source in sorted(files("edgepack_wheel.module").iterdir(), key=lambda each: each.name):
        if source.name.endswith(".py"):
            yield WheelMember(name=f"{module}/{source.name}", content=source.read_bytes())
    yield WheelMember(name=f"{module}/py.typed", content=b"")
    modes = {str(file["path"]): file["mode"] == "0755" for file in bundle.manifest["files"]}
    signature = (
        ["signature.sigstore.json"] if (bundle.directory / "signature.sigstore.json").is_file() else []
    )
    for path in sorted([*modes, "manifest.json", *signature]):
        yield WheelMember(
            name=f"{module}/bundle/{path}", content=bundle.directory / path, executable=modes.get(path, False)
        )
    for path, place in _licenses(bundle).items():
        yield WheelMember(name=f"{info}/licenses/{place}", content=bundle.directory / path)
    if SBOM in modes:
        yield WheelMember(name=f"{info}/sboms/{Path(SBOM).name}", content=bundle.directory / SBOM)
    yield WheelMember(name=f"{info}/METADATA", content=_metadata(bundle, name, version).encode())
    listed = "".join(f"Tag: py3-none-{tag}\n" for tag in tags)
    said = WHEEL.format(edgepack=bundle.manifest["edgepack"], tags=listed)
    yield WheelMember(name=f"{info}/WHEEL", content=said.encode())
    commands = COMMANDS.format(name=name, module=module)
    yield WheelMember(name=f"{info}/entry_points.txt", content=commands.encode())


def _metadata(bundle: Bundle, name: str, version: str) -> str:
    manifest: Mapping[str, Any] = bundle.manifest
    return METADATA.format(
        name=name,
        module=_module(name),
        version=version,
        model=manifest["model"]["name"],
        dimension=manifest["model"]["dimension"],
        target=manifest["target"]["name"],
        licenses="".join(f"License-File: {place}\n" for place in _licenses(bundle).values()),
    )


def _licenses(bundle: Bundle) -> dict[str, str]:
    """Path in the bundle → path below the wheel's ``licenses/``."""
    paths = sorted(str(file["path"]) for file in bundle.manifest["files"])
    return {path: path[len(LICENSES) :] for path in paths if path.startswith(LICENSES) and path != SBOM}


def _module(name: str) -> str:
    module = name.replace("-", "_")
    return module if module.isidentifier() and not keyword.iskeyword(module) else f"_{module}"


def _tags(bundle: Bundle) -> Sequence[str]:
    """Tags of the systems that it runs on; a static program needs neither glibc nor musl of them."""
    platform = bundle.manifest["target"]["platform"]
    arch = platform["arch"]
    if platform.get("libc") == "musl":
        both = (f"manylinux_2_17_{arch}", f"musllinux_1_1_{arch}")
        return both if is_static(bundle.program) else (f"musllinux_1_2_{arch}",)
    if not platform["glibc"]:
        return (f"linux_{arch}",)
    return (f"manylinux_{platform['glibc'].replace('.', '_')}_{arch}",)
