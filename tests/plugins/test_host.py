"""Discovery of plugins: real entry points on sys.path, without pip."""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgepack.cli import cli, listed
from edgepack.errors import PluginError, TargetError
from edgepack.plugins.host import load_plugins, plugins_of_process
from edgepack.records.bundle import Bundle
from edgepack.records.report import Report, Verification

InstallPlugin = Callable[[str, str], None]

GOOD = """
from importlib.resources import files
from edgepack.api import Spec, hookimpl

SEEN = []

def create(target, context):
    raise NotImplementedError

@hookimpl
def edgepack_specs():
    return [Spec(axis="builder", name="kiosk", summary="kiosks", make=create, missing=lambda target: ["kiosktool"])]

@hookimpl
def edgepack_targets():
    return [files(__name__) / "kiosk-one.toml"]

@hookimpl
def edgepack_bundle_written(bundle):
    SEEN.append(bundle)
"""
TARGET = """
schema = 1
summary = "a kiosk"
builder = "kiosk"
[platform]
os = "linux"
arch = "x86_64"
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InstallPlugin]:
    """Installs a plugin package by writing it and its .dist-info into a folder on sys.path."""
    monkeypatch.syspath_prepend(tmp_path)
    installed = []

    def write(name: str, code: str) -> None:
        package = tmp_path / f"edgepack_{name}"
        package.mkdir()
        (package / "__init__.py").write_text(code)
        (package / f"{name}-one.toml").write_text(TARGET)
        info = tmp_path / f"edgepack_{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: edgepack-{name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(
            f"[edgepack]\n{name} = edgepack_{name}\n[edgepack.commands]\n{name} = edgepack_{name}:command\n"
        )
        monkeypatch.delitem(sys.modules, f"edgepack_{name}", raising=False)
        installed.append(f"edgepack_{name}")

    yield write
    for module in installed:  # before the modules of that name come back
        sys.modules.pop(module, None)


def test_a_process_loads_plugins_once_until_what_decides_about_them_changes(
    install: InstallPlugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = plugins_of_process()
    assert plugins_of_process() is before and "kiosk" not in before.builders
    install("kiosk", GOOD)
    after = plugins_of_process()
    assert plugins_of_process() is after and "kiosk" in after.builders
    (tmp_path / "edgepack.toml").write_text("plugins = []")
    assert "kiosk" not in plugins_of_process().builders
    (tmp_path / "edgepack.toml").unlink()
    monkeypatch.setenv("EDGEPACK_DISABLE_PLUGINS", "kiosk")
    assert "kiosk" not in plugins_of_process().builders


def test_a_strangers_command_is_listed_without_being_imported_and_run(install: InstallPlugin) -> None:
    install("kiosk", "import click\n@click.command('other')\ndef command(): click.echo('at the kiosk')\n")
    runner = CliRunner()
    assert "  kiosk      From edgepack_kiosk (edgepack-kiosk 1.2)\n" in runner.invoke(cli, ["--help"]).output
    assert "edgepack_kiosk" not in sys.modules
    assert runner.invoke(cli, ["kiosk"]).output == "at the kiosk\n"


def test_a_command_is_summed_up_by_its_docstring_unimported(install: InstallPlugin) -> None:
    install("kiosk", "raise SystemExit(3)\ndef command():\n    'Print what the kiosk shows.'\n")
    shown = CliRunner().invoke(cli, ["--help"]).output
    assert "  kiosk      Print what the kiosk shows (from edgepack_kiosk)\n" in shown
    assert "edgepack_kiosk" not in sys.modules


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise SystemExit(0)", "cannot be loaded: it ended the program (SystemExit: 0)"),
        ("command = 5", "is 5, expected a click command"),
        (
            "import click\ncommand = click.Command('x', callback=lambda: 1 / 0)",
            "failed: ZeroDivisionError: division by zero",
        ),
        (
            "import click\ncommand = click.Group('x', invoke_without_command=True, callback=lambda: {}['no'])",
            "failed: KeyError: 'no'",
        ),
    ],
)
def test_a_broken_command_is_its_plugins_fault(install: InstallPlugin, code: str, words: str) -> None:
    install("kiosk", code)
    with pytest.raises(
        PluginError, match=re.escape(f"command kiosk of edgepack_kiosk (edgepack-kiosk 1.2) {words}")
    ):
        CliRunner().invoke(cli, ["kiosk"], catch_exceptions=False)


def test_no_plugin_takes_the_place_of_a_command(install: InstallPlugin) -> None:
    for name in ("targets", "cuda"):
        install(name, "import click\ncommand = click.Command('x', help='Stolen.')\n")
        assert "Stolen" not in CliRunner().invoke(cli, [name, "--help"]).output


def test_the_in_tree_plugin_is_found() -> None:
    host = load_plugins()
    assert "linux" in host.builders
    assert host.target("linux-x86-min").builder == "linux"


def test_a_strangers_plugin_adds_a_builder_and_a_target(install: InstallPlugin) -> None:
    install("kiosk", GOOD)
    host = load_plugins()
    info = next(plugin for plugin in host.plugins if plugin.name == "kiosk")
    assert (info.distribution, info.version, info.error) == ("edgepack-kiosk", "1.2", "")
    assert ([spec.name for spec in info.specs], info.targets) == (["kiosk"], ("kiosk-one",))
    assert host.target("kiosk-one").summary == "a kiosk"
    rows = {row["target"]: row["state"] for row in listed.target_rows(host)}
    assert rows["kiosk-one"] == "missing kiosktool"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import no_such_module_here", "ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("raise SystemError('bad day')", "SystemError: bad day"),
        (GOOD.replace("edgepack_targets", "edgepack_target"), "edgepack_target"),
        (GOOD.replace("make=create,", "make=create, api=99,"), "written for plugin interface 99"),
        (GOOD.replace("[Spec(", "[str("), "TypeError"),
        (GOOD.replace('name="kiosk"', 'name="linux"'), "builder linux is registered already"),
    ],
)
def test_a_broken_plugin_is_listed_and_stops_nobody_else(
    install: InstallPlugin, code: str, words: str
) -> None:
    install("kiosk", code)
    host = load_plugins()
    info = next(plugin for plugin in host.plugins if plugin.name == "kiosk")
    assert words in info.error
    assert host.builder_of(host.target("linux-x86-min")).spec.name == "linux"


def test_a_broken_plugin_is_the_error_once_its_target_is_chosen(
    install: InstallPlugin, tmp_path: Path
) -> None:
    install("kiosk", "raise RuntimeError('no licence')")
    file = tmp_path / "mine.toml"
    file.write_text(TARGET)
    host = load_plugins()
    with pytest.raises(PluginError) as caught:
        host.builder_of(host.target(str(file)))
    assert "needs plugin kiosk, which is broken: RuntimeError: no licence" in caught.value.message
    assert "edgepack-kiosk" in (caught.value.hint or "")


def test_an_unknown_builder_suggests_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(TARGET.replace('"kiosk"', '"linus"'))
    host = load_plugins()
    with pytest.raises(PluginError, match=r"names builder linus.*did you mean linux\?"):
        host.builder_of(host.target(str(file)))


def test_an_unknown_target_suggests_the_nearest() -> None:
    with pytest.raises(TargetError, match=r"no target linux-x68-min \(did you mean linux-x86-min\?\)"):
        load_plugins().target("linux-x68-min")


def test_bundle_written_reaches_plugins_and_failures_name_them(
    install: InstallPlugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path.parent)
    install("kiosk", GOOD)
    install("mailer", "from edgepack.api import hookimpl\n")
    bundle = Bundle(directory=tmp_path, manifest={"name": "x"})
    report = Report(
        bundle="x",
        target="t",
        parts=(),
        archive_bytes=None,
        costs=(),
        verification=Verification(status="not verified"),
    )
    host = load_plugins()
    ((name, tell),) = host.told_when_written()
    tell(replace(bundle, directory=Path(tmp_path.name)), report)
    assert name == "kiosk"
    assert [bundle] == sys.modules["edgepack_kiosk"].SEEN

    failing = (
        "from edgepack.api import hookimpl\n@hookimpl\ndef edgepack_bundle_written(report):\n    1 / 0\n"
    )
    install("uploader", failing)
    with pytest.raises(
        PluginError, match="plugin uploader failed in edgepack_bundle_written: ZeroDivisionError"
    ):
        for _, tell in load_plugins().told_when_written():
            tell(bundle, report)
