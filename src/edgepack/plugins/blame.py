"""Whatever a plugin raises becomes an error that names the plugin and what of it was called."""

from collections.abc import Iterator
from contextlib import contextmanager

from edgepack.errors import CannotRunHere, EdgepackError, PluginError

DEBUG = "--debug shows where the plugin failed"


@contextmanager
def blamed_on(plugin: str, called: str, *, hint: str = DEBUG) -> Iterator[None]:
    """Turn what is raised inside into a ``PluginError``, but for what was raised on purpose (``EdgepackError``)."""
    try:
        yield
    except (EdgepackError, CannotRunHere):
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(f"plugin {plugin} failed in {called}: {in_words(error)}", hint=hint) from error


def in_words(error: BaseException) -> str:
    """An error in a line: its message, after its class where that is not edgepack's own."""
    if isinstance(error, EdgepackError):
        return str(error)
    words = f"{type(error).__name__}: {error}"
    return f"it ended the program ({words})" if isinstance(error, SystemExit) else words
