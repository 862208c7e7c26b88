"""What is ordered, and that it is what was made."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgepack.building.order import place_order
from edgepack.errors import OutputError
from edgepack.files.store import require_unchanged
from edgepack.plugins.context import HostContext
from edgepack.records.target import Pass


@pytest.mark.parametrize("changed", ["texts.txt", "corpus.txt"])
def test_a_file_of_the_users_that_changed_meanwhile_is_said(
    tmp_path: Path, context: HostContext, changed: str
) -> None:
    """The id named the texts of the end, and the weights were rounded by those of the beginning."""
    for name in ("texts.txt", "corpus.txt"):
        (tmp_path / name).write_text("a cat\n")
    target = context.plugins().target("linux-x86-min", {})
    pruned = Pass(name="prune-vocabulary", parameters={"corpus": str(tmp_path / "corpus.txt")})
    model = replace(target.model, calibration=tmp_path / "texts.txt", recipe=(pruned, Pass(name="fuse")))
    order = place_order(
        replace(target, model=model),
        model=None,
        output=tmp_path / "dist",
        force=False,
        bench=False,
        prices=None,
        key=None,
        context=context,
    )
    require_unchanged(order.files)
    (tmp_path / changed).write_text("a dog\n")
    with pytest.raises(OutputError, match=f"{changed} was changed while it was read"):
        require_unchanged(order.files)
