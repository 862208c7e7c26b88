"""Plugins that are wrong in every way that was seen: whose fault it is said to be, and that nobody else is hurt."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock, patch

import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors.numpy import save_file

from edgepack.bundles.packages import packagers_of
from edgepack.cli import cli
from edgepack.errors import EdgepackError, PluginError, UnsupportedModelError
from edgepack.foundry.platforms import find_platform
from edgepack.models.export import from_source
from edgepack.models.find.remote import find_remote
from edgepack.models.read.hub_layout import choose_weights
from edgepack.plugins import builder, spec
from edgepack.plugins.blame import blamed_on
from edgepack.plugins.context import HostContext, host_context
from edgepack.plugins.delegate import builder_of
from edgepack.plugins.host import load_plugins
from edgepack.recipes.registry import pass_named, recipe_named
from edgepack.records.model import ModelSource, Pooling
from edgepack.records.target import Platform

Install = Callable[..., None]

PLUGIN = """
from importlib.resources import files
from edgepack import api

def make(target, context):
    raise NotImplementedError

def options():
    return {"colour": "red"}

def missing(target):
    return ()

@api.hookimpl
def edgepack_specs():
    return [api.Spec(axis="builder", name="kiosk", summary="kiosks", make=make, options=options, missing=missing)]

@api.hookimpl
def edgepack_targets():
    return [files(__name__) / "kiosk-one.toml"]
"""
TARGET = """
schema = 1
summary = "a kiosk"
builder = "kiosk"
[platform]
os = "linux"
arch = "x86_64"
"""
METADATA = "Metadata-Version: 2.1\nName: edgepack-kiosk\nVersion: 1.2\n"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs the plugin, with changes to its code, its target file, and commands beside it."""

    def write(*changes: tuple[str, str], before: str = "", target: str = TARGET, commands: str = "") -> None:
        code = PLUGIN
        for old, new in changes:
            assert old in code, old
            code = code.replace(old, new)
        package = tmp_path / "edgepack_kiosk"
        package.mkdir()
        (package / "__init__.py").write_text(before + code)
        (package / "kiosk-one.toml").write_text(target)
        info = tmp_path / "edgepack_kiosk-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(METADATA)
        (info / "entry_points.txt").write_text(
            f"[edgepack]\nkiosk = edgepack_kiosk\n[edgepack.commands]\n{commands}"
        )
        monkeypatch.delitem(sys.modules, "edgepack_kiosk", raising=False)

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return write


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def rows(what: str) -> dict[str, dict[str, str]]:
    """What a listing says as JSON, which nothing that a plugin prints may disturb; by the first column."""
    return {row[what.removesuffix("s")]: row for row in json.loads(run(what, "--json").stdout)}


def require_others_unhurt() -> None:
    assert rows("targets")["linux-x86-min"]["state"] == "ready"
    assert rows("plugins")["linux"]["state"] == "ready"
    assert run("report", "--help").exit_code == 0


def require_where_it_hurts(reason: str) -> None:
    """Whoever asks for a name of any axis that a broken plugin may have brought is told of the plugin, and why it is broken."""
    host = load_plugins()
    target = host.target("linux-x86-min")
    with host_context(host=host, offline=True) as context:
        for asked in (
            lambda: recipe_named("paint", context),
            lambda: pass_named("paint", context),
            lambda: packagers_of(replace(target, packages=("chest",)), context),
            lambda: find_remote("shelf://tiny", context=context),
            lambda: find_platform(Platform(os="kiosk", arch="z80"), context.extensions("platform")),
            lambda: choose_weights(["model.safetensors"], {"model_type": "x"}, "m", context=context),
            lambda: host.builder_of(replace(target, builder="stall")),
            lambda: builder_of("stall"),
        ):
            with pytest.raises(EdgepackError) as caught, patch_pytorch():
                asked()
            hint = str(caught.value.hint)
            assert hint.endswith(f"; a broken plugin may have brought it: {reason}"), caught.value


def patch_pytorch() -> AbstractContextManager[object]:
    """As where PyTorch is not installed."""
    return patch("edgepack.models.read.hub_layout.has_pytorch", return_value=False)


SPEC_LIST = "return [api.Spec("
BROKEN_AT_REGISTRATION = [
    ({"before": "import no_such_module_here\n"}, "ModuleNotFoundError: No module named 'no_such_module_here', when it was imported"),
    ({"before": "raise SystemExit(3)\n"}, "it ended the program (SystemExit: 3), when it was imported"),
    ({"before": "syntax error\n"}, "SyntaxError"),
    ([("edgepack_targets", "edgepack_target")], "edgepack_target"),
    ([("def edgepack_specs()", "def edgepack_specs(target)")], "target"),
    ([("def edgepack_targets()", "def edgepack_targets(context, bundle)")], "context"),
    ([(SPEC_LIST, "return (api.Spec("), ("missing=missing)]", "missing=missing))")], "edgepack_specs returned Spec("),
    ([(SPEC_LIST, "return [str("), ("missing=missing)]", "missing=missing)]")], "TypeError"),
    ([(SPEC_LIST, "return ['kiosk'] or [api.Spec(")], "edgepack_specs listed 'kiosk', expected Spec objects"),
    ([(SPEC_LIST, "return None and [api.Spec(")], "edgepack_specs returned None, expected a list"),
    ([(SPEC_LIST, "1 / 0; return [api.Spec(")], "ZeroDivisionError: division by zero, in edgepack_specs"),
    ([('return [files(__name__) / "kiosk-one.toml"]', 'return ["kiosk-one.toml"]')], "edgepack_targets listed 'kiosk-one.toml'"),
    ([('return [files(__name__) / "kiosk-one.toml"]', 'return "kiosk-one.toml"')], "edgepack_targets returned 'kiosk-one.toml', expected a list"),
    ([('name="kiosk"', 'name="linux"')], "builder linux is registered already"),
    ([('name="kiosk"', 'name=7')], "spec 7: name is 7, expected a str"),
    ([('name="kiosk"', 'name="../kiosk"')], "'../kiosk' is no name"),
    ([("make=make", "make=None")], "spec 'kiosk': make is None, expected Callable[..., Any]"),
    ([('summary="kiosks"', 'summary="kiosks", formats="abc"')], "formats is 'abc', expected tuple[str, ...]"),
    ([('summary="kiosks"', 'summary="kiosks", api="2"')], "api is '2', expected an int"),
    ([('axis="builder"', 'axis="flavour"')], "'flavour'; plugins bring: builder, platform"),
    ([('summary="kiosks"', 'summary="kiosks", api=1')], "written for plugin interface 1"),
    ([('summary="kiosks"', 'summary="kiosks", api=3')], "written for plugin interface 3"),
]  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize(("wrong", "words"), BROKEN_AT_REGISTRATION)
def test_what_is_wrong_at_registration_is_the_plugins_and_stops_nobody_else(
    install: Install, wrong: dict[str, str] | list[tuple[str, str]], words: str
) -> None:
    if isinstance(wrong, dict):
        install(**wrong)
    else:
        install(*wrong)
    listed = run("plugins", "--json")
    assert listed.exit_code == PluginError.exit_code
    state = {row["plugin"]: row["state"] for row in json.loads(listed.stdout)}["kiosk"]
    assert state.startswith("broken: ")
    assert words in state
    require_others_unhurt()
    require_where_it_hurts(f"kiosk ({state.removeprefix('broken: ')})")
    wanted = run("bundle", "--target", "kiosk-one")
    assert "no target kiosk-one" in str(wanted.exception)
    assert "a broken plugin may have brought it: kiosk (" in str(getattr(wanted.exception, "hint", ""))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("api", "state"),
    [
        (1, "broken: builder kiosk is written for plugin interface 1; this edgepack speaks 2 and 3"),
        (2, "deprecated: written for interface 2 of axis builder, edgepack 0.3 ends it"),
        (3, "ready"),
        (4, "broken: builder kiosk is written for plugin interface 4; this edgepack speaks 2 and 3"),
    ],
)
def test_the_interface_before_an_axis_own_is_accepted_until_a_release(
    install: Install, monkeypatch: pytest.MonkeyPatch, api: int, state: str
) -> None:
    newer = {"builder": spec.Interfaces(oldest=2, newest=3, ends="0.3")}
    monkeypatch.setattr("edgepack.plugins.host.INTERFACES", {**spec.INTERFACES, **newer})
    install(('summary="kiosks"', f'summary="kiosks", api={api}'))
    listed = run("plugins", "--json")
    assert {row["plugin"]: row["state"] for row in json.loads(listed.stdout)}["kiosk"] == state
    assert listed.exit_code == (PluginError.exit_code if "broken" in state else 0)
    assert ("kiosk" in load_plugins().builders) == ("broken" not in state)
    assert rows("plugins")["deb"]["state"] == "ready", "another axis is where it was"


def test_a_plugin_that_does_not_say_was_written_for_interface_2() -> None:
    assert spec.Spec(axis="builder", name="x", summary="", make=dict).api == 2


@pytest.mark.slow
def test_a_target_named_as_one_of_ours_is_refused(install: Install, tmp_path: Path) -> None:
    install(('"kiosk-one.toml"', '"linux-x86-min.toml"'))
    (tmp_path / "edgepack_kiosk" / "linux-x86-min.toml").write_text(TARGET)
    assert "target linux-x86-min is registered already" in rows("plugins")["kiosk"]["state"]
    require_others_unhurt()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("return ()", "raise KeyError('zig')")], "plugin kiosk failed in missing of builder kiosk: KeyError: 'zig'"),
        ([("return ()", "raise SystemExit")], "plugin kiosk failed in missing of builder kiosk: it ended the program"),
        ([("return ()", "return [5]")], "missing of builder kiosk yielded 5, expected names of tools"),
        ([("return ()", "return 5")], "plugin kiosk failed in missing of builder kiosk: TypeError"),
        ([("return ()", "import time; time.sleep(30)")], "missing of builder kiosk did not return within 0.5 s"),
        ([('"kiosk-one.toml"', '"gone.toml"')], "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_target_is_said_in_its_row(
    install: Install, monkeypatch: pytest.MonkeyPatch, changes: list[tuple[str, str]], words: str
) -> None:
    rows("targets")  # with everything imported that is
    monkeypatch.setattr(builder, "SECONDS", 0.5)
    install(*changes)
    found = rows("targets")
    (state,) = [row["state"] for row in found.values() if row["origin"] == "kiosk"]
    assert state.startswith("broken: ")
    assert words in state
    require_others_unhurt()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("schema = 1\nbuilder =", "not valid TOML"),
        (TARGET + "[engine]\nfuel = 1\n", "unknown key engine"),
        (TARGET.replace('"kiosk"', '"kiosks"'), "names builder kiosks, which no plugin registers"),
        (TARGET.replace("schema = 1", "schema = 7"), "has schema 7"),
    ],
)
def test_what_is_wrong_in_a_target_file_is_said_in_its_row(install: Install, target: str, words: str) -> None:
    install(target=target)
    assert words in rows("targets")["kiosk-one"]["state"]
    require_others_unhurt()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([('return {"colour": "red"}', "raise KeyError('x')")], "plugin kiosk failed in options of builder kiosk: KeyError: 'x'"),
        ([('return {"colour": "red"}', "return ['colour']")], "options of builder kiosk returned ['colour'], expected a mapping"),
        ([('"colour": "red"', '"colour": object()')], "options of builder kiosk: colour is <object"),
        ([('"colour": "red"', '"colour": b"red"')], "options of builder kiosk: colour is b'red', expected what a target file can say"),
        ([('"colour": "red"', '"colour": __import__("numpy").int64(3)')], "options of builder kiosk: colour is np.int64(3)"),
        ([('"colour": "red"', '"colour": ()')], "options of builder kiosk: colour is ()"),
        ([('"colour": "red"', '"the colour": "red"')], "options of builder kiosk: 'the colour' is no name of an option"),
        ([('"colour": "red"', '7: "red"')], "options of builder kiosk: 7 is no name of an option"),
        *[
            ([('"colour": "red"', f'"{name}": "red"')], f"options of builder kiosk: {name} cannot be a builder's")
            for name in ("recipe", "target", "output", "offline")
        ],
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_the_plugins_fault(
    install: Install, changes: list[tuple[str, str]], words: str
) -> None:
    install(*changes)
    assert words in rows("plugins")["kiosk"]["state"]
    assert words in str(run("bundle", "--target", "kiosk-one").exception)
    require_others_unhurt()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "words"),
    [
        ("1 / 0", "plugin kiosk failed in make of platform kiosk: ZeroDivisionError"),
        ("5", "plugin kiosk: what platform kiosk makes has no "),
    ],
)
def test_a_platform_that_cannot_be_made_is_listed(install: Install, make: str, words: str) -> None:
    platform = f'api.Spec(axis="platform", name="kiosk", summary="", make=lambda: {make})'
    install((SPEC_LIST, f"return [{platform}, api.Spec("))
    assert rows("plugins")["kiosk"]["state"].startswith(f"broken: {words}")
    assert run("plugins").exit_code == 4
    require_others_unhurt()


def test_every_flag_of_a_build_is_reserved() -> None:
    for name in ("bundle", "fetch"):
        parameters = cli.commands[name].params
        flags = {flag for each in parameters for flag in (*each.opts, *each.secondary_opts)}
        assert {flag[2:].replace("-", "_") for flag in flags if flag.startswith("--")} <= builder.RESERVED


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["bundle", "cuda"])
def test_a_command_with_the_name_of_another_is_said_and_not_run(install: Install, name: str) -> None:
    install(("def make(", "import click\ncommand = click.Command('x', help='Stolen.')\ndef make("), commands=f"{name} = edgepack_kiosk:command\n")  # fmt: skip
    whose = "edgepack's own" if name == "bundle" else "that of edgepack_cuda"
    assert rows("plugins")["kiosk"]["state"] == f"broken: its command {name} is {whose}"
    assert "Stolen" not in run(name, "--help").output
    require_others_unhurt()


def test_a_broken_command_does_not_take_anothers_with_it(install: Install) -> None:
    install(before="raise KeyError('x')\n", commands="kiosk = edgepack_kiosk:command\n")
    assert "command kiosk of edgepack_kiosk (edgepack-kiosk 1.2) cannot be loaded" in str(
        run("kiosk").exception
    )
    assert run("cuda", "--help").exit_code == 0


def test_what_a_plugin_prints_is_no_part_of_a_result(install: Install) -> None:
    install(("return ()", "print('asked'); return ()"), before="print('imported')\n")
    result = run("targets", "--json")
    assert {row["target"]: row["state"] for row in json.loads(result.stdout)}["kiosk-one"] == "ready"
    assert "imported" in result.stderr
    assert "asked" in result.stderr


@pytest.mark.slow
def test_a_plugin_says_what_it_brings(install: Install) -> None:
    install(commands="kiosk = edgepack_kiosk:command\n")
    assert rows("plugins")["kiosk"] == {
        "plugin": "kiosk",
        "state": "ready",
        "distribution": "edgepack-kiosk 1.2",
        "api": "2",
        "brings": "builder kiosk",
        "commands": "kiosk",
        "targets": "kiosk-one",
    }
    assert run("plugins").exit_code == 0


@pytest.mark.slow
def test_of_a_plugin_that_brings_many_things_a_table_shows_how_many() -> None:
    names = rows("plugins")["edgepack"]["brings"]
    assert "pass int8-weights" in names and "platform linux-aarch64" in names
    shown = CliRunner().invoke(cli, ["plugins"], env={"COLUMNS": "200"}).output
    count = sum(name.startswith("pass ") for name in names.split(", "))
    assert f" pass: {count}, recipe: " in shown
    assert "int8-weights" not in shown and "pass float-levels" in shown


@pytest.mark.sample(1)
@pytest.mark.parametrize("way", ["flag", "variable", "all", "edgepack.toml", "pyproject.toml"])
def test_plugins_can_be_ruled_out(
    install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str
) -> None:
    install(before="raise KeyError('x')\n", commands="kiosk = edgepack_kiosk:command\n")
    # What the flag sets is taken back with it.
    monkeypatch.setenv("EDGEPACK_DISABLE_PLUGINS", {"variable": "other, kiosk", "all": "*"}.get(way, ""))
    if way.endswith(".toml"):
        table = "[tool.edgepack]\n" if way == "pyproject.toml" else ""
        (tmp_path / way).write_text(f'{table}plugins = ["other"]\n')
    flags = ["--no-plugins"] if way == "flag" else []
    result = run(*flags, "plugins", "--json")
    assert result.exit_code == 0
    state = {row["plugin"]: row["state"] for row in json.loads(result.stdout)}
    assert state["linux"] == "ready"
    assert state["kiosk"] == f"disabled by {way if way.endswith('.toml') else 'EDGEPACK_DISABLE_PLUGINS'}"
    assert "edgepack_kiosk" not in sys.modules
    assert "kiosk" not in run(*flags, "--help").output
    assert run(*flags, "kiosk").exit_code == 2


def test_an_allowlist_takes_what_it_names(install: Install, tmp_path: Path) -> None:
    install()
    (tmp_path / "edgepack.toml").write_text('plugins = ["kiosk"]\n')
    assert "kiosk" in load_plugins().builders
    (tmp_path / "edgepack.toml").write_text('plugins = "kiosk"\n')
    assert "edgepack.toml: plugins is 'kiosk', expected a list" in str(run("targets").exception)


@pytest.mark.sample(7)
@pytest.mark.parametrize("axis", spec.INTERFACES)
def test_each_axis_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch, axis: str) -> None:
    newer = {axis: spec.Interfaces(oldest=2, newest=3, ends="0.3")}
    monkeypatch.setattr("edgepack.plugins.host.INTERFACES", {**spec.INTERFACES, **newer})
    ending = {plugin.name: plugin.ending for plugin in load_plugins().plugins}
    bring = {plugin.name for plugin in load_plugins().plugins for each in plugin.specs if each.axis == axis}
    assert {name for name, words in ending.items() if words} == bring
    assert {ending[name] for name in bring} <= {
        f"written for interface 2 of axis {axis}, edgepack 0.3 ends it"
    }


@pytest.mark.tools("echo")
def test_what_native_code_writes_to_descriptor_1_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    os.write(1, b"result ")
    with pytest.raises(PluginError), blamed_on("kiosk", "a step"):
        os.write(1, b"outer ")
        with blamed_on("lark", "a check"):
            subprocess.run(["echo", "program"], check=True)
        os.write(1, b"again")
        raise KeyError
    os.write(1, b"is whole")
    assert capfd.readouterr() == ("result is whole", "outer program\nagain")


@pytest.mark.tools("sh")
def test_a_plugin_may_be_called_where_stdout_is_closed() -> None:
    code = "from edgepack.plugins.blame import blamed_on as b\nwith b('a', 'b'): pass\nprint(open('/dev/null').fileno())"
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" >&-', sys.executable, code], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_model_that_pytorch_exports_for_a_broken_plugin_is_warned_of(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(before="raise SystemExit(3)\n")
    warned: list[str] = []
    monkeypatch.setattr(HostContext, "warn", lambda self, line: warned.append(line))
    monkeypatch.setattr(from_source, "export_with_torch", Mock(side_effect=UnsupportedModelError("asked")))
    weights = tmp_path / "model.safetensors"
    save_file({"embedding": np.zeros((1, 2), np.float32)}, weights)
    source = ModelSource(
        name="m", origin="", directory=tmp_path, weights=weights, onnx=None, tokenizer=tmp_path,
        config={"model_type": "quill"}, pooling=Pooling(), max_length=8, dimension=2,
    )  # fmt: skip
    with host_context(offline=True) as context, pytest.raises(UnsupportedModelError, match="asked"):
        from_source.export_onnx(source, tmp_path / "made", context=context)
    (words,) = warned
    assert words == (
        "nothing that is installed writes the graph of a 'quill': PyTorch exports it; a broken plugin may have brought "
        "it: kiosk (it ended the program (SystemExit: 3), when it was imported)"
    )
