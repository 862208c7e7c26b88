"""Where the tokenizers library gives up: its Rust code panics, and Python sees an exception that no ``except Exception`` catches."""

from collections.abc import Iterator
from contextlib import contextmanager

from edgepack.errors import UnsupportedModelError


@contextmanager
def panics_reported() -> Iterator[None]:
    """Raises ``UnsupportedModelError`` for a panic: a regular expression of tokenizer.json that tries too many ways to match.

    Around every call of a model's tokenizer; also a decorator.
    """
    try:
        yield
    except BaseException as error:
        # pyo3 makes the class when it is first needed, and no module has it.
        if type(error).__name__ != "PanicException":
            raise
        said = str(error).partition("\n")[0][:200]
        raise UnsupportedModelError(
            f"the tokenizers library gave up on the model's tokenizer.json: {said}",
            hint="a regular expression in its normalizer or pre_tokenizer takes too long for some texts, or a part contradicts another; "
            "ask the model's author for another",
        ) from error
