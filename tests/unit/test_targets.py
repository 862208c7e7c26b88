"""Target files: what is read, and what is refused with which words."""

from pathlib import Path

import pytest

from edgepack import targets
from edgepack.errors import TargetError, UsageError
from edgepack.options import read_options
from edgepack.records.target import UNSAID, Pass, Reading, Target

MINIMAL = """
schema = 1
summary = "a test"
builder = "linux"
[platform]
os = "linux"
arch = "x86_64"
glibc = "2.28"
"""


def read(tmp_path: Path, text: str, *overrides: str) -> Target:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return targets.read_target(file, origin="mine.toml", overrides=overrides)


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    target = read(
        tmp_path,
        MINIMAL
        + """
        [model]
        recipe = [{ pass = "fuse" }, { pass = "int8-dynamic", per_channel = true }]
        format = "ort"
        min_cosine = 0.99
        [budget]
        download = "30 MB"
        [options]
        runtime = "minimal"
        """,
    )
    assert target.name == "mine"
    assert target.platform.glibc == "2.28"
    assert target.model.recipe == (
        Pass(name="fuse"),
        Pass(name="int8-dynamic", parameters={"per_channel": True}),
    )
    assert target.download_budget == 30_000_000
    assert target.options == {"runtime": "minimal"}


def test_what_is_said_of_the_model(tmp_path: Path) -> None:
    keys = '[model]\npooling = "cls"\nnormalize = false\nprompts = { query = "q: " }\ntreat_as_embedding = true\nroute = "query"\n'
    target = read(tmp_path, MINIMAL + keys)
    said = Reading(
        pooling="cls", normalize=False, prompts={"query": "q: "}, treat_as_embedding=True, route="query"
    )
    assert target.model.reading == said
    assert targets.with_reading(target, UNSAID) == target
    over = targets.with_reading(target, Reading(pooling="max", normalize=True, prompts={"passage": "p: "}))
    assert over.model.reading == Reading(
        pooling="max",
        normalize=True,
        prompts={"query": "q: ", "passage": "p: "},
        treat_as_embedding=True,
        route="query",
    )
    assert read(tmp_path, MINIMAL).model.reading == UNSAID


def test_every_built_in_target_is_valid() -> None:
    files = targets.built_in_targets()
    assert "linux-x86-min.toml" in [file.name for file in files]
    for file in files:
        assert targets.read_target(file, origin="edgepack").summary


@pytest.mark.parametrize(
    ("overrides", "recipe", "cosine", "options"),
    [
        (("model.recipe=fp32",), "fp32", targets.MIN_COSINE, {}),
        (('model.recipe="fp32"', "model.min_cosine = 0.5"), "fp32", 0.5, {}),
        (("runtime=full", "threads=2"), "int8", targets.MIN_COSINE, {"runtime": "full", "threads": 2}),
    ],
)
def test_overrides_change_the_target(
    tmp_path: Path, overrides: tuple[str, ...], recipe: str, cosine: float, options: dict[str, object]
) -> None:
    target = read(tmp_path, MINIMAL, *overrides)
    assert (target.model.recipe, target.model.min_cosine, target.options) == (recipe, cosine, options)


def test_the_recipe_of_models_with_scores(tmp_path: Path) -> None:
    """It belongs to the file's own recipe: who asks for another one gets that."""
    text = MINIMAL + '[model]\nrecipe = "int8-download"\nscore_recipe = "int8-near"\n'
    own, other = read(tmp_path, text).model, read(tmp_path, text, "model.recipe=int4").model
    assert (own.recipe, own.for_scores().recipe) == ("int8-download", "int8-near")
    assert (other.recipe, other.for_scores().recipe) == ("int4", "int4")
    both = read(tmp_path, text, "model.score_recipe=fp16", "model.recipe=int4").model
    assert both.for_scores().recipe == "fp16"
    assert read(tmp_path, text, "model.gate=full").model.for_scores().recipe == "int8-near"


def test_a_plugins_own_table_is_kept_as_it_is(tmp_path: Path) -> None:
    tables = "[x-kiosk]\nlegs = [1, 2]\n[x-kiosk.paint]\nred = true\n[x-other]\n"
    target = read(tmp_path, MINIMAL + tables, "x-kiosk.glass=yes")
    assert target.extra == {"kiosk": {"legs": [1, 2], "paint": {"red": True}, "glass": "yes"}, "other": {}}


@pytest.mark.parametrize("override", ["recipe", "=fp32", "model.=fp32", "schema.x=1"])
def test_an_override_that_makes_no_sense_is_a_usage_error(tmp_path: Path, override: str) -> None:
    with pytest.raises(UsageError):
        read(tmp_path, MINIMAL, override)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MINIMAL + "glibcc = '2.1'", "unknown key [platform] glibcc (did you mean glibc?)"),
        (MINIMAL + "[modell]", "unknown key modell (did you mean model?)"),
        (MINIMAL.replace("schema = 1", "schema = 7"), "schema 7"),
        (MINIMAL.replace('builder = "linux"', ""), "builder is missing"),
        (MINIMAL.replace('"2.28"', "2.28"), "glibc is 2.28, expected a string"),
        (MINIMAL.replace('"2.28"', '"new"'), "platform.glibc is 'new'"),
        (MINIMAL + "[model]\nformat = 5", "expected a string"),
        (MINIMAL + "[model]\npooling = 'clss'", "did you mean cls?"),
        (MINIMAL + "[model]\nnormalize = 1", "model.normalize is 1, expected true or false"),
        (MINIMAL + "[model.prompts]\nclustering = 'c: '", "model.prompts names clustering"),
        (MINIMAL + "[model.prompts]\nquery = 1", "model.prompts"),
        (MINIMAL + "[model]\nmin_cosine = 2", "expected a number from 0 to 1"),
        (MINIMAL + "[model]\nrecipe = 8", "neither a recipe's name nor a list"),
        (
            MINIMAL + '[model]\nrecipe = [{ recipe = "int8", layers = [] }]',
            "neither a recipe's name nor a list",
        ),
        (MINIMAL + "[budget]\ndownload = 'small'", "is not a size"),
        (MINIMAL + "[y-kiosk]", "unknown key y-kiosk"),
        (MINIMAL + "[[x-kiosk]]", "x-kiosk is [{}], expected a table"),
        (MINIMAL + "[x-kiosk]\nday = 2026-11-22", "[x-kiosk] holds what no manifest can"),
        (MINIMAL + "[x-kiosk]\nlegs = nan", "[x-kiosk] holds what no manifest can"),
        (MINIMAL + f"[budget]\ndownload = '{'9' * 400} MB'", "is not a size"),
        (MINIMAL + "[runner]\nmodule = '~nobody-of-that-name/x.py'", "runner.module is '~nobody"),
        ("schema = ", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(TargetError) as caught:
        read(tmp_path, text)
    assert words in caught.value.message


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"there is no target file .*none\.toml$") as caught:
        targets.read_target(tmp_path / "none.toml", origin="none.toml")
    assert "`edgepack targets` lists" in str(caught.value.hint)
    with pytest.raises(TargetError, match=r"cannot be read: Is a directory$"):
        targets.read_target(tmp_path, origin="folder")


@pytest.mark.parametrize(
    ("text", "size"),
    [("30 MB", 30_000_000), ("1.5MiB", 1_572_864), ("12 kb", 12_000), ("7 B", 7)],
)
def test_sizes(text: str, size: int) -> None:
    assert targets.parse_size(text) == size


def test_builder_options_are_checked(tmp_path: Path) -> None:
    known = {"runtime": ("minimal", "full"), "threads": 1, "sources": None, "serve": False}
    assert read_options(read(tmp_path, MINIMAL, "threads=4"), known) == {
        "runtime": "minimal",
        "threads": 4,
        "sources": None,
        "serve": False,
    }
    for override, words, hint in [
        (
            "runtimes=full",
            "unknown option runtimes (did you mean runtime?)",
            "runtime, serve, sources, threads",
        ),
        ("runtime=ful", "did you mean full?", "one of: minimal, full"),
        ("threads=many", "expected an integer", "by default it is 1"),
        ("threads=true", "expected an integer", "by default it is 1"),
        ("serve=yes", "expected true or false", "by default it is false"),
        ("sources=true", "expected a string", "by default it is unset"),
    ]:
        with pytest.raises(TargetError) as caught:
            read_options(read(tmp_path, MINIMAL, override), known)
        assert words in caught.value.message
        assert hint in (caught.value.hint or "")


def test_a_number_is_a_string_where_one_is_expected(tmp_path: Path) -> None:
    """A shell takes the quotes away of what a hint says: ``--set platform.glibc="2.30"``."""
    for said in ("platform.glibc=2.30", 'platform.glibc="2.30"'):
        assert read(tmp_path, MINIMAL, said).platform.glibc == "2.30"
    found = read(tmp_path, MINIMAL, "model.min_cosine=0.90", "options.share=0.50")
    assert (found.model.min_cosine, found.options["share"]) == (0.9, 0.5)


def test_a_target_that_sets_no_limit_is_held_to_one(tmp_path: Path) -> None:
    assert read(tmp_path, MINIMAL).model.min_cosine == targets.MIN_COSINE > 0.98
    assert read(tmp_path, MINIMAL, "model.min_cosine=0").model.min_cosine == 0.0


@pytest.mark.parametrize(
    ("said", "name"),
    [
        *(
            ("arm64", "aarch64"),
            ("amd64", "x86_64"),
            ("x64", "x86_64"),
            ("armhf", "armv7l"),
            ("armv7", "armv7l"),
        ),
        *(("ARM64", "aarch64"), ("armv7l", "armv7l"), ("riscv64", "riscv64")),
    ],
)
def test_a_processor_has_one_name(tmp_path: Path, said: str, name: str) -> None:
    assert read(tmp_path, MINIMAL, f"platform.arch={said}").platform.arch == name


def test_a_c_library_can_be_said(tmp_path: Path) -> None:
    assert read(tmp_path, MINIMAL).platform.libc is None
    without = MINIMAL.replace('glibc = "2.28"\n', "")
    assert read(tmp_path, without, "platform.libc=musl").platform.libc == "musl"
    with pytest.raises(TargetError, match=r"platform\.libc .*(glib|musl)"):
        read(tmp_path, without, "platform.libc=glib")
    with pytest.raises(TargetError, match=r"platform\.glibc is for devices with glibc, not with musl"):
        read(tmp_path, without, "platform.libc=musl", "platform.glibc=2.28")
