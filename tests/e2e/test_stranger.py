"""A third party's distribution, installed with pip into an environment of its own, is a target like ours."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STRANGER = ROOT / "tests" / "stranger"

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]


def pip(*arguments: str | Path, python: Path = Path(sys.executable)) -> None:
    command = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", *arguments]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of a new virtual environment that holds edgepack and the stranger's plugin as wheels."""
    folder = tmp_path_factory.mktemp("stranger")
    wheels = folder / "wheels"
    for distribution in (ROOT, STRANGER):
        source = folder / distribution.name
        tracked = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."],
            cwd=distribution,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\0")
        for name in filter(None, tracked):
            if (distribution / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                (source / name).write_bytes((distribution / name).read_bytes())
        pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", wheels, source)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    pip("install", "--quiet", "--no-deps", "--no-index", *sorted(wheels.glob("*.whl")), python=python)
    # Third-party packages and their programs come from the environment that runs the tests: nothing is fetched here.
    site = next((folder / "env" / "lib").glob("python3*")) / "site-packages"
    (site / "third-party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for program in Path(sysconfig.get_path("scripts")).iterdir():
        if not (python.parent / program.name).exists():
            (python.parent / program.name).symlink_to(program)
    return python.parent


def run(environment: Path, *arguments: str | Path) -> str:
    command = [str(environment / "edgepack"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_every_file_of_the_source(environment: Path) -> None:
    package = next((environment.parent / "lib").glob("python3*")) / "site-packages" / "edgepack"
    source = ROOT / "src" / "edgepack"
    for file in source.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            assert (package / file.relative_to(source)).is_file(), f"{file} is not in the wheel"


def test_it_is_listed_like_our_own(environment: Path) -> None:
    plugins = {row["plugin"]: row for row in json.loads(run(environment, "plugins", "--json"))}
    assert plugins["kiosk"]["distribution"] == "edgepack-kiosk 1.0"
    assert plugins["kiosk"]["targets"] == "kiosk"
    targets = {row["target"]: row for row in json.loads(run(environment, "targets", "--json"))}
    assert targets["kiosk"]["state"] == "ready"
    assert "linux-x86-min" in targets


def test_it_bundles_is_verified_and_is_reported(environment: Path, tiny_model: Path, tmp_path: Path) -> None:
    made = json.loads(
        run(environment, "bundle", "-t", "kiosk", "-m", tiny_model, "-o", tmp_path, "--offline", "--json")
    )
    assert made["verification"]["status"] == "passed"
    assert made["verification"]["mean_cosine"] >= 0.9999
    folder = tmp_path / "tiny-bert-kiosk"
    assert made["directory"] == str(folder)

    vectors = json.loads(
        subprocess.run([folder / "embed", "hello"], capture_output=True, text=True, check=True, env={}).stdout
    )
    assert len(json.dumps(vectors)) > 32
    again = json.loads(run(environment, "verify", folder, "-m", tiny_model, "--offline", "--json"))
    assert again["status"] == "passed"
    report = json.loads(run(environment, "report", folder, "--json"))
    assert report["target"] == "kiosk"
    assert report["verification"]["status"] == "passed"
