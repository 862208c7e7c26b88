"""Third parties' distributions, installed with pip into environments of their own."""

import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pip(*arguments: str | Path, python: Path = Path(sys.executable)) -> None:
    """Run pip for an environment."""
    command = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", *arguments]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def environment_of(plugin: Path, folder: Path) -> Path:
    """The scripts folder of a new virtual environment that holds edgepack and a plugin's distribution as wheels."""
    wheels = folder / "wheels"
    for distribution in (ROOT, plugin):
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
    others = sysconfig.get_path("purelib")
    (site / "third-party.pth").write_text(f"import site; site.addsitedir({others!r})\n")
    for program in Path(sysconfig.get_path("scripts")).iterdir():
        if not (python.parent / program.name).exists():
            (python.parent / program.name).symlink_to(program)
    return python.parent


def run(environment: Path, *arguments: str | Path) -> str:
    """What its `edgepack` prints."""
    command = [str(environment / "edgepack"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
