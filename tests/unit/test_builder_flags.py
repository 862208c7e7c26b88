"""A builder's own options, written as flags of ``edgepack bundle`` and ``fetch``."""

import click
import pytest

from edgepack.cli.builder_flags import ANY_FLAG, builder_flags
from edgepack.options import OptionTable

KNOWN: OptionTable = {"home": None, "max_batch": 32, "arch": ["86"], "prune_vendor": False, "way": ("a", "b")}


def parsed(*words: str) -> tuple[tuple[str, ...], list[str]]:
    command = click.Command("bundle", params=[click.Option(["--recipe"])], context_settings=dict(ANY_FLAG))
    return builder_flags(command.make_context("bundle", list(words)), KNOWN)


@pytest.mark.parametrize(
    ("words", "overrides"),
    [
        (("--home", "/opt/x"), ("home=/opt/x",)),
        (("--home=/opt/a=b", "--recipe", "int8", "--max-batch", "8"), ("home=/opt/a=b", "max_batch=8")),
        (("--prune-vendor", "--way", "b"), ("prune_vendor=true", "way=b")),
        (("--prune-vendor=false",), ("prune_vendor=false",)),
        (("--arch", "86", "--max_batch=8", "--arch=89"), ("max_batch=8", 'arch=["86", "89"]')),
        (('--arch=["90"]',), ('arch=["90"]',)),
        ((), ()),
    ],
)
def test_a_flag_is_short_for_set(words: tuple[str, ...], overrides: tuple[str, ...]) -> None:
    assert parsed(*words) == (overrides, [])


def test_words_that_are_no_flags_are_left() -> None:
    assert parsed("model", "--home", "x", "another") == (("home=x",), ["model", "another"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--hom", "x"), "No such option '--hom'. Did you mean '--home'?"),
        (("--recpie", "x"), "No such option '--recpie'. Did you mean '--recipe'?"),
        (("-x",), "No such option '-x'."),
        (("--home",), "Option '--home' requires an argument."),
        (("--arch", "86", '--arch=["89"]'), "--arch is given as a list and by itself"),
    ],
)
def test_what_nobody_knows_is_refused_as_ever(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        parsed(*words)
    assert caught.value.format_message() == message
