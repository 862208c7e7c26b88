"""Checks of a build that something comes in the way of: an interruption, a kill, a network that is not there."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgepack.testing.check import Broken, check
from edgepack.testing.kit import TargetSubject

BUILDER = "docs/plugins.md#a-builder"
PATIENCE = 120.0
"""Seconds until a build must have come to its builder, and have ended when it is interrupted."""
CLOSED = "http://127.0.0.1:9"
"""Nobody listens there."""
NO_NETWORK = {
    name: CLOSED
    for scheme in ("http", "https", "all")
    for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper())
} | {"no_proxy": "", "NO_PROXY": ""}


@dataclass(frozen=True, kw_only=True)
class Hindered:
    """How a build that got a signal in the middle ended."""

    come: bool
    """To its last step."""
    exit_code: int | None
    """None where it had to be killed."""


def _words(subject: TargetSubject, output: Path) -> list[str]:
    settings = [word for override in subject.overrides for word in ("--set", override)]
    words = ["bundle", "-t", subject.name, "-m", subject.model, "-o", output, *settings, "--offline"]
    return [str(word) for word in words]


def _hindered(subject: TargetSubject, folder: Path, number: signal.Signals) -> Hindered:
    """A build into ``dist`` of a folder, whose temporary files go to ``tmp``, that gets a signal while its runner is made."""
    (folder / "tmp").mkdir(parents=True)
    with (folder / "stderr").open("w+") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", "edgepack", *_words(subject, folder / "dist")],
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=subject.kit.environment({"TMPDIR": str(folder / "tmp")}),
        )
        come = _wait(lambda: "runner" in Path(log.name).read_text() or running.poll() is not None)
        running.send_signal(number)
        ended = _wait(lambda: running.poll() is not None)
        if not ended:
            running.kill()
            running.wait()
    return Hindered(come=come, exit_code=running.returncode if ended else None)


def _wait(done: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@check(
    "interrupted-leaves-nothing",
    "A build that is interrupted ends, and leaves nothing behind.",
    section=BUILDER,
)
def interrupted_leaves_nothing(subject: TargetSubject) -> None:
    _ = subject.built
    folder = subject.kit.folder / f"interrupted-{subject.name.replace('/', '-')}"
    seen = _hindered(subject, folder, signal.SIGTERM)
    if not seen.come or seen.exit_code is None:
        raise Broken(
            f"it did not end within {PATIENCE:g} s", do="let KeyboardInterrupt through, end what you start"
        )
    if seen.exit_code == 0:
        raise Broken(
            "it went on as if nothing had been",
            do="catch Exception, never BaseException, and leave signal handlers alone",
        )
    places = (folder / "dist", folder / "tmp")
    left = [path for place in places if place.exists() for path in place.rglob("*")]
    if left:
        raise Broken(f"it left {left[0].relative_to(folder)}", do="write below context.work_dir only")


@check(
    "killed-leaves-nothing",
    "A build that is killed leaves no partial output, and the next one succeeds.",
    section=BUILDER,
)
def killed_leaves_nothing(subject: TargetSubject) -> None:
    _ = subject.built
    folder = subject.kit.folder / f"killed-{subject.name.replace('/', '-')}"
    if not _hindered(subject, folder, signal.SIGKILL).come:
        raise Broken(
            f"it did not come to its runner within {PATIENCE:g} s", do="see what `prepare_model` waits for"
        )
    output = folder / "dist"
    # What begins with a dot is the host's unfinished folder, which the next build removes.
    if half := [path for path in output.glob("*") if not path.name.startswith(".")]:
        raise Broken(f"it left {half[0].name}", do="write below context.work_dir only")
    _build(
        subject,
        output,
        {},
        what="the build after one that was killed",
        do="keep what outlasts a build in context.store.cached, which knows what was left half-made",
    )
    if left := [path for path in output.iterdir() if path.name.startswith(".")]:
        raise Broken(f"the next build left {left[0].name}", do="write below context.work_dir only")


@check(
    "works-offline",
    "With all that it needs in the cache a build reaches for no network: it succeeds where every proxy is a closed port.",
    section=BUILDER,
)
def works_offline(subject: TargetSubject) -> None:
    _ = subject.built
    output = subject.kit.folder / f"offline-{subject.name.replace('/', '-')}"
    _build(
        subject,
        output,
        NO_NETWORK,
        what="a build without a network",
        do="fetch in `fetch` of the Spec, or by api.download into context.store, and ask nobody for what is there",
    )


def _build(
    subject: TargetSubject, output: Path, environment: Mapping[str, str], *, what: str, do: str
) -> None:
    done = subject.kit.edgepack(*_words(subject, output), env=dict(environment))
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith(("error:", "hint:"))]
        raise Broken(f"{what} ended with {done.returncode}: {' '.join(lines) or done.stderr[-300:]}", do=do)


CHECKS = (interrupted_leaves_nothing, killed_leaves_nothing, works_offline)
