"""What a Dockerfile says, and its instructions carried out in a folder: Docker itself needs a daemon."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

CERTIFICATES = "/etc/certificates-of-the-host.crt"
SHARED = {
    "/etc/resolv.conf": "/etc/resolv.conf",
    "/etc/hosts": "/etc/hosts",
    # Debian's own are installed in their usual place, and this machine may reach its network by others.
    "/etc/ssl/certs/ca-certificates.crt": CERTIFICATES,
}
"""Files that the network asks for: here → there."""


def instructions(file: Path) -> Iterator[tuple[str, str]]:
    """Each instruction's name and the rest of it, lines that go on joined."""
    text = re.sub(r"^#.*\n", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name, " ".join(rest.split())


@dataclass(frozen=True, kw_only=True)
class Root:
    """A folder that is a system's root, and the environment of its programs."""

    folder: Path
    environment: dict[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    )

    def run(
        self, *command: str, at: str = "/", user: str = "0:0", more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in it, with the kernel's files and nothing else of this machine."""
        inside = '/bin/mount --rbind /dev "$0/dev" && /bin/mount -t proc proc "$0/proc" && cd "$0" && exec /usr/sbin/chroot --userspec="$1" "$0" /bin/sh -c "$2" sh "${@:3}"'
        words = ["unshare", "--mount", "--pid", "--fork", "bash", "-c", inside, str(self.folder), user]
        start = f'cd {at} && exec "$@"'
        environment = {**self.environment, **(more or {})}
        return subprocess.run(
            [*words, start, *command], env=environment, capture_output=True, text=True, check=False
        )

    def build(self, file: Path, context: Path) -> None:
        """Carry out what a Dockerfile says of files, programs and variables. Raises ``AssertionError`` where a program fails."""
        for name, rest in instructions(file):
            if name == "COPY":
                *sources, to = rest.split()
                for source in sources:
                    _copy(context / source, self.folder / to.lstrip("/"), into=to.endswith("/"))
            elif name == "ENV":
                self.environment.update(each.partition("=")[::2] for each in rest.split())
            elif name == "WORKDIR":
                (self.folder / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
            elif name == "RUN":
                self.carry_out(rest)

    def carry_out(self, words: str) -> None:
        """What a shell is told, with the network. Raises ``AssertionError`` where it fails."""
        done = self.run("/bin/sh", "-c", words, more=_network())
        assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"


def debian(folder: Path, suite: str) -> Root:
    """What `FROM debian:SUITE-slim` gives, by debootstrap."""
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", suite, folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for name, there in SHARED.items():
        place = folder / there.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(name, place)
    return Root(folder=folder)


def _network() -> dict[str, str]:
    """Variables by which this machine's pip and apt reach theirs, and none that names a folder of this machine."""
    kept = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
    found = {name: value for name, value in os.environ.items() if name in kept}
    return {**found, "PIP_CERT": CERTIFICATES, "DEBIAN_FRONTEND": "noninteractive"}


def _copy(source: Path, to: Path, *, into: bool) -> None:
    place = to / source.name if into and source.is_file() else to
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, place, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, place)
