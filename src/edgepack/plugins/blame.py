"""Whatever a plugin raises becomes an error that names the plugin and what of it was called."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from edgepack.errors import CannotRunHere, EdgepackError, PluginError

T = TypeVar("T")

DEBUG = "--debug shows where the plugin failed"


@contextmanager
def blamed_on(
    plugin: str,
    called: str,
    *,
    hint: str = DEBUG,
    on_purpose: tuple[type[Exception], ...] = (EdgepackError, CannotRunHere),
) -> Iterator[None]:
    """Turn what is raised inside into a ``PluginError``, but for what is raised ``on_purpose``, for people to read.

    What a plugin prints goes to stderr: stdout is the command's result, which may be JSON.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except on_purpose:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(f"plugin {plugin} failed in {called}: {in_words(error)}", hint=hint) from error


from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


def in_words(error: BaseException) -> str:
    """An error in a line: its message, after its class where that is not edgepack's own."""
    if isinstance(error, EdgepackError):
        return str(error)
    words = f"{type(error).__name__}: {error}"
    return f"it ended the program ({words})" if isinstance(error, SystemExit) else words
