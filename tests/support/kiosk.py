"""A third party's plugin whose program is a Python script: honest, and easily made wrong. Nothing is compiled."""

import json
import sys
from pathlib import Path

import pytest

from edgepack.testing.script import HAS, PROGRAM

PLUGIN = """
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.abc import Traversable
from importlib.resources import files

from edgepack import api

@dataclass(frozen=True)
class Kiosk:
    target: api.Target
    context: api.BuildContext

    def prepare_model(self, source: api.ModelSource) -> api.PreparedModel:
        return api.prepare_model(source, options=self.target.model, context=self.context)

    def provide_runtime(self, model: api.PreparedModel) -> api.RuntimeArtifact | None:
        return None

    def make_runner(self, model: api.PreparedModel, runtime: api.RuntimeArtifact | None) -> api.RunnerArtifact:
        folder = self.context.work_dir / "runner"
        folder.mkdir()
        (folder / "embed").write_text(PROGRAM)
        (folder / "embed").chmod(0o755)
        (folder / "boot.bin").write_bytes(b"firmware")
        return api.RunnerArtifact(
            directory=folder, program="embed", kind="script", command=COMMAND, parts={"boot.bin": "firmware"}
        )

PROGRAM = __PROGRAM__
COMMAND: tuple[str, ...] | None = ()
OPTIONS: api.OptionTable = {"colour": "red"}

def make(target: api.Target, context: api.BuildContext) -> api.TargetBuilder:
    api.require_platform(target, os="linux", architectures=("x86_64",))
    api.read_options(target, OPTIONS)
    return Kiosk(target, context)

@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    return [api.Spec(axis="builder", name="kiosk", summary="kiosks", make=make, options=lambda: OPTIONS)]

@api.hookimpl
def edgepack_targets() -> Iterable[Traversable]:
    return [files(__name__) / "kiosk-one.toml"]
"""
TARGET = """
schema = 1
summary = "a kiosk"
builder = "kiosk"
[platform]
os = "linux"
arch = "x86_64"
has = __HAS__
[model]
recipe = "fp32"
format = "onnx"
min_cosine = 0.99
""".replace("__HAS__", json.dumps(HAS))


def prepare_site(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with the metadata of the plugin's distribution."""
    info = folder / "edgepack_kiosk-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: edgepack-kiosk\nVersion: 1.2\nRequires-Dist: edgepack\n"
    )
    (info / "entry_points.txt").write_text("[edgepack]\nkiosk = edgepack_kiosk\n")
    monkeypatch.syspath_prepend(folder)
    return folder


def install(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *changes: tuple[str, str],
    misdeed: str = "",
    before: str = "",
) -> None:
    """Write the plugin's package into that folder, with changes to its code; ``misdeed`` is what its program does first."""
    code = PLUGIN
    for old, new in changes:
        assert old in code, old
        code = code.replace(old, new)
    package = folder / "edgepack_kiosk"
    package.mkdir()
    (package / "__init__.py").write_text(
        before + code.replace("__PROGRAM__", repr(PROGRAM.replace("MISDEED", misdeed)))
    )
    (package / "kiosk-one.toml").write_text(TARGET)
    monkeypatch.delitem(sys.modules, "edgepack_kiosk", raising=False)
