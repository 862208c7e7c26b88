"""What the options of all commands may do: none drops a file of the user's, none is dropped without a word."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.support.command import edgepack

from edgepack.cli import archives, cli, doctor
from edgepack.cli import bundles as bundle_commands
from edgepack.cli.bundles import verify
from edgepack.cli.options import Written
from edgepack.plugins.commands import load_command, plugin_commands

pytestmark = pytest.mark.tools("python")


def commands_of(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    names = [*group.commands, *(plugin_commands() if group is cli else ())]
    for name in names:
        command = group.commands.get(name) or load_command(name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands_of(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


PATHS = {
    (name, parameter.opts[-1]): parameter.type
    for name, command in commands_of(cli)
    for parameter in command.params
    if isinstance(parameter.type, click.Path)
}
WRITTEN = [each for each, kind in PATHS.items() if isinstance(kind, Written)]
READ = {
    *(("build", "--project"), ("quantize", "--calibration"), ("report", "path"), ("verify", "path")),
    *(("runtime import", "file"), ("runtime explain", "path"), ("runtime lib", "--release")),
    *((f"runtime {name}", what) for name in ("fits", "prove") for what in ("library", "model")),
    *((name, what) for name in ("diff", "delta") for what in ("old", "new")),
    *(("apply", "delta"), ("join", "archives"), ("serve-web", "path")),
    *(("cuda inspect", "library"), ("cuda prune", "library")),
}
LOOKS_ITSELF = {
    ("build", "--report"): "build --report user.html",
    ("bundle", "--output"): "bundle -t linux-x86-min --offline -o user",
    ("cuda prune", "--output"): "cuda prune user --arch 8.6 -o user",
    ("delta", "--output"): "delta user user -o user",
    ("join", "--output"): "join user -o user",
    ("keys new", "name"): "keys new team",
    ("plugin new", "--output"): "plugin new kiosk -o .",
    ("quantize", "--output"): "quantize --offline -o kept",
    ("runtime export", "file"): "runtime export --offline user",
    ("runtime export", "--output"): "runtime export --wheel --offline -o user",
    ("runtime lib", "--output"): "runtime lib --offline -o kept",
    # After more than is at hand here: test_place, test_updates, test_record.
    ("apply", "path"): "",
    ("apply", "--output"): "",
    ("pull", "--output"): "",
    ("verify", "--record"): "",
}
"""Command lines that would write over something."""


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Path]:
    """Files of the user's, none of which is another or gone afterwards."""
    files = [
        tmp_path / name for name in ("user", "user.html", "team.key", "kept/user", "edgepack-kiosk/user")
    ]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("mine\n")
    yield tmp_path
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(files)
    assert {file.read_text() for file in files} == {"mine\n"}


def test_of_every_path_it_is_known_who_looks_at_what_lies_there() -> None:
    there = {each for each, kind in PATHS.items() if kind.exists}
    assert PATHS.keys() - there == {*READ, *LOOKS_ITSELF, *WRITTEN}
    assert len({*READ, *LOOKS_ITSELF, *WRITTEN}) == len(READ) + len(LOOKS_ITSELF) + len(WRITTEN)


@pytest.mark.sample(1)
@pytest.mark.parametrize("written", WRITTEN, ids=" ".join)
def test_what_a_command_writes_is_not_written_over_another_file(written: tuple[str, str], mine: Path) -> None:
    name, option = written
    bundle = ["nothing"] if name in ("report", "verify") else []
    done = edgepack(*name.split(), *bundle, option, "user", cwd=mine)
    assert done.returncode == 2, done.stderr
    assert "user exists and is something else, so it is not replaced" in done.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize("words", [*filter(None, LOOKS_ITSELF.values())])
def test_commands_that_look_themselves_write_over_nothing(words: str, mine: Path) -> None:
    done = edgepack(*words.split(), cwd=mine)
    assert done.returncode in (2, 15, 17), done.stderr
    assert any(said in done.stderr for said in ("exists", "is a file", "not replaced")), done.stderr


def test_two_outputs_of_a_command_are_two_files(tmp_path: Path) -> None:
    """The list of operators lay in the model's place."""
    done = edgepack("convert", "--offline", "-o", "m.ort", "--operators", "./m.ort", cwd=tmp_path)
    assert done.returncode == 2
    assert "--operators and --output name one file" in done.stderr
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "modes", "every"),
    [
        (verify, bundle_commands.MODES, {"path", "max_unpacked", "key", "as_json", "debug"}),
        (archives.export_command, archives.MODES, None),
        (doctor.doctor, doctor.MODES, None),
    ],
    ids=["verify", "runtime export", "doctor"],
)
def test_every_option_is_of_a_mode_or_of_all(
    command: click.Command, modes: dict[str, set[str]], every: set[str] | None
) -> None:
    names = {each.name for each in command.params}
    of_modes = {name for name in modes if name}.union(*modes.values())
    assert of_modes <= names
    assert every is None or names == of_modes | every


EXAMPLES = {
    "require_device": "--require-device=here",
    "signature_only": "--signature-only",
    "devices": "--on=exec:env",
    "model": "--model=/nonexistent",
    "pooling": "--pooling=cls",
    "normalize": "--no-normalize",
    "gate": "--gate=full",
    "prompts": "--prompt=query=a",
    "route": "--route=query",
    "treat_as_embedding": "--treat-as-embedding",
    "target": "--target=linux-x86-min",
    "min_cosine": "--min-cosine=0.9",
    "seed": "--seed=1",
    "run": "--run",
    "min_version": "--min-version=9.0",
    "offline": "--offline",
    "record": "--record=x",
    "bench": "--bench",
    "sign": f"--sign={__file__}",
    "write_vectors": "--write-vectors=x",
    "other_vectors": f"--other-vectors={__file__}",
}


@pytest.mark.parametrize(
    ("mode", "option"),
    [
        (mode, name)
        for mode, taken in bundle_commands.MODES.items()
        for name in sorted(EXAMPLES.keys() - {mode, *taken})
        if mode or name not in bundle_commands.MODES
    ],
)
def test_an_option_that_a_mode_of_verify_does_not_take_is_an_error(mode: str, option: str) -> None:
    """`--require-device --min-version` said "passed" of a bundle that was older."""
    words = [EXAMPLES[each] for each in (mode, option) if each]
    done = CliRunner().invoke(verify, ["nothing", *words, "--key", __file__])
    assert done.exit_code == 2, done.exception
    assert ("goes without" if mode else "requires --") in done.output


def test_every_option_of_a_mode_has_an_example() -> None:
    assert EXAMPLES.keys() == {*bundle_commands.MODES, ""}.union(*bundle_commands.MODES.values()) - {""}
