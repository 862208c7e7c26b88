"""Ways to edgepack other than a checkout: its Dockerfile, carried out in a root of Debian's, and a bundle made there."""

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.support.dockerfile import debian, instructions
from tests.support.strangers import ROOT, copied

from edgepack.files.store import default_root

DOCKERFILE = ROOT / "Dockerfile"


def test_what_the_dockerfile_copies_is_what_docker_is_given() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copies = [rest.split()[:-1] for name, rest in instructions(DOCKERFILE) if name == "COPY"]
    for source in (each for sources in copies for each in sources):
        assert (ROOT / source).exists()
        assert f"!{source.partition('/')[0]}" in ignored, source
    assert ignored[1] == "*"


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("debootstrap"), reason="needs root and debootstrap")
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
