"""What the platform says of itself; `edgepack runtime lib` with a target of it compiles, which takes a while."""

from edgepack_acme import platform


def test_it_is_for_this_processor() -> None:
    made = platform()
    assert made.os == "linux"
    assert tuple(made.architectures) == ("riscv64",)
