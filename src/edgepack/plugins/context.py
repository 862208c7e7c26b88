"""The host's side of ``BuildContext``."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgepack import tools
from edgepack.console import Story
from edgepack.context import Extension, Progress
from edgepack.files.store import WORK, Store, default_root, disk_errors
from edgepack.plugins.host import PluginHost, load_plugins


@dataclass(frozen=True, kw_only=True)
class HostContext:
    """All that a builder gets of the host (see ``edgepack.context.BuildContext``)."""

    work_dir: Path
    offline: bool
    store: Store
    story: Story
    plugins: Callable[[], PluginHost]
    """The host, loaded when something first asks what plugins bring."""

    def extensions(self, axis: str) -> Mapping[str, Extension]:
        return self.plugins().extensions(axis)

    def run(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        input: str | None = None,
        log_file: Path | None = None,
        timeout: float | None = None,
        largest_file: int | None = None,
    ) -> str:
        return tools.run_tool(
            command,
            cwd=cwd,
            env=env,
            input=input,
            log_file=log_file,
            timeout=timeout,
            largest_file=largest_file,
        )

    def download(self, url: str, *, sha256: str) -> Path:
        from edgepack.fetch.download import fetch_file

        return fetch_file(url, sha256=sha256, context=self)

    def progress(
        self, label: str, total: int | None = None, *, unit: str = "", before: str = ""
    ) -> AbstractContextManager[Progress]:
        return self.story.progress(label, total, unit, before)

    def note(self, message: str) -> None:
        self.story.note(message)

    def warn(self, message: str) -> None:
        self.story.warn(message)


@contextmanager
def host_context(
    *,
    story: Story | None = None,
    offline: bool = False,
    store: Store | None = None,
    host: PluginHost | None = None,
) -> Iterator[HostContext]:
    """A context whose work folder is removed when the block ends, however it ends."""
    with disk_errors(Path(tempfile.gettempdir())):
        work = tempfile.TemporaryDirectory(prefix=WORK, ignore_cleanup_errors=True)
    with work as folder:
        yield HostContext(
            work_dir=Path(folder),
            offline=offline,
            store=store or Store(root=default_root()),
            story=story or Story(),
            plugins=cache(lambda: host or load_plugins()),
        )
