"""Where symbols are: an architecture's own index first, then that of x86-64."""

from edgepack.foundry.link.demand import Index
from edgepack.foundry.link.index import either


def test_what_the_first_does_not_know_the_second_is_asked() -> None:
    own = Index(definers=lambda symbol: ["a"] if symbol == "f" else [], edges={"a": ["b"]})
    other = Index(definers=lambda symbol: ["x"], edges={"a": ["x"], "x": ["y"]})
    found = either(own, other)
    assert (found.definers("f"), found.definers("g")) == (["a"], ["x"])
    assert found.reach(["a", "x"]) == {"a", "b", "x", "y"}
