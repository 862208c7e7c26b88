"""What ``edgepack plugin new`` writes, for each axis: installed as a wheel beside edgepack's, its own tests and the kit pass."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from edgepack import template

ROOT = Path(__file__).parents[2]
AXES = template.axes()

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]


def pip(*arguments: str | Path, python: Path = Path(sys.executable)) -> None:
    command = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", *arguments]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of a new virtual environment: edgepack as a wheel, and a plugin of each axis, which that wrote."""
    folder = tmp_path_factory.mktemp("template")
    source = folder / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, tracked):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    wheels = folder / "wheels"
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", wheels)
    install = ("install", "--quiet", "--no-deps", "--no-index")
    pip(*build, source)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    pip(*install, *wheels.glob("edgepack-*.whl"), python=python)
    # Third-party packages and their programs come from the environment that runs the tests: nothing is fetched here.
    site = next((folder / "env" / "lib").glob("python3*")) / "site-packages"
    others = [path for path in sys.path if path.endswith("-packages")]
    (site / "third-party.pth").write_text("\n".join(others) + "\n")
    for program in Path(sysconfig.get_path("scripts")).iterdir():
        if not (python.parent / program.name).exists():
            (python.parent / program.name).symlink_to(program)
    for axis in AXES:
        run(python.parent, "plugin", "new", f"our-{axis}", "--axis", axis, "--output", folder)
    pip(*build, *(folder / f"edgepack-our-{axis}" for axis in AXES))
    pip(*install, *wheels.glob("edgepack_our*.whl"), python=python)
    return python.parent


def run(environment: Path, *arguments: str | Path) -> str:
    command = [str(environment / "edgepack"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_every_file_of_the_source(environment: Path) -> None:
    package = next((environment.parent / "lib").glob("python3*")) / "site-packages" / "edgepack"
    for source, place in (
        (ROOT / "src/edgepack", package),
        (ROOT / "plugins/template", package / "plugin_template"),
    ):
        for file in source.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                assert (place / file.relative_to(source)).is_file(), f"{file} is not in the wheel"


def test_they_are_listed_like_our_own(environment: Path) -> None:
    plugins = {row["plugin"]: row for row in json.loads(run(environment, "plugins", "--json"))}
    for axis in AXES:
        assert plugins[f"our-{axis}"]["state"] == "ready"
        assert plugins[f"our-{axis}"]["distribution"] == f"edgepack-our-{axis} 0.1.0"
    targets = {row["target"]: row for row in json.loads(run(environment, "targets", "--json"))}
    assert targets["our-builder"]["state"] == "ready"
    assert "linux-x86-min" in targets


@pytest.mark.parametrize("axis", AXES)
def test_its_own_tests_and_the_kit_pass(environment: Path, axis: str) -> None:
    folder = environment.parents[1] / f"edgepack-our-{axis}"
    done = subprocess.run(
        [environment / "python", "-m", "pytest", "-p", "no:cacheprovider", "-rs"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "checks hold" in done.stdout
    assert "NOT CHECKED" not in done.stdout
