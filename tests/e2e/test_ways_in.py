"""Ways to edgepack other than a checkout: its Dockerfile, carried out in a root of Debian's, and a bundle made there."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.dockerfile import debian, instructions
from tests.support.strangers import ROOT, copied

from edgepack import PYTHONS
from edgepack.files.store import default_root

DOCKERFILE = ROOT / "Dockerfile"


def test_what_the_dockerfile_copies_is_what_docker_is_given() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copies = [rest.split()[:-1] for name, rest in instructions(DOCKERFILE) if name == "COPY"]
    for source in (each for sources in copies for each in sources):
        assert (ROOT / source).exists()
        assert f"!{source.partition('/')[0]}" in ignored, source
    assert ignored[1] == "*"


def in_a_root(test: Callable[[Path], None]) -> Callable[[Path], None]:
    """Marks of a test that makes a system's root: it takes minutes, and a network."""
    without = os.geteuid() != 0 or not shutil.which("debootstrap")
    test = pytest.mark.skipif(without, reason="needs root and debootstrap")(test)
    return pytest.mark.e2e(pytest.mark.slow(pytest.mark.timeout(3600)(test)))


@in_a_root
def test_a_python_that_is_too_new_is_told_what_to_type_by_the_first_command(tmp_path: Path) -> None:
    """Debian's coming release has such a Python, and everything that edgepack requires there has wheels for it."""
    root = debian(tmp_path / "root", "sid")
    copied(ROOT, root.folder / "source")
    root.carry_out(
        "apt-get -o Acquire::Check-Valid-Until=false update && apt-get install --yes --no-install-recommends make python3-venv"
    )
    root.carry_out("python3 -m venv /v && /v/bin/pip install --only-binary=:all: '/source[build]'")
    version = root.run(
        "/v/bin/python", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"
    ).stdout.strip()
    assert version not in PYTHONS, "nothing to be told: this test can go"
    for command in (
        ("/v/bin/edgepack", "targets"),
        ("/v/bin/python", "-m", "edgepack"),
        ("make", "-C", "/source", "bundle"),
    ):
        done = root.run(*command)
        lines = done.stderr.splitlines()
        assert done.returncode != 0 and f"this is {version}" in lines[0], done.stderr
        assert "uv tool install --python 3.13 'edgepack[build]'" in lines[1], done.stderr


@in_a_root
def test_the_dockerfile_makes_an_edgepack_that_makes_bundles(tmp_path: Path) -> None:
    found = dict(instructions(DOCKERFILE))
    assert found["FROM"] == "debian:12-slim"
    root = debian(tmp_path / "root", "bookworm")
    root.build(DOCKERFILE, copied(ROOT, tmp_path / "source"))
    (entry,) = json.loads(found["ENTRYPOINT"])
    # Any user: the one whose folder is mounted.
    work = root.folder / "work"
    os.chown(work, 1234, 1234)
    cache = root.folder / "home/edgepack/.cache/edgepack"
    cache.parent.mkdir()
    shutil.copytree(default_root(), cache, symlinks=True)
    for folder, names, files in os.walk(cache.parent):
        for name in (*names, *files, "."):
            os.chown(Path(folder) / name, 1234, 1234, follow_symlinks=False)
    done = root.run(
        entry, "bundle", "-t", "linux-x86-fast", "--offline", "--json", at=found["WORKDIR"], user="1234:1234"
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout)["verification"]["status"] == "passed"
    program = f"{json.loads(done.stdout)['directory']}/embed"
    said = root.run(f"./{program}", "A man is eating food.", at=found["WORKDIR"], user="1234:1234")
    assert len(json.loads(said.stdout)[0]["embedding"]) == 384
