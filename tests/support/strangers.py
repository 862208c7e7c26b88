"""Third parties' distributions, installed with pip as wheels beside edgepack's, into environments of their own."""

import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]


def new_environment(folder: Path) -> Path:
    """The scripts folder of a new virtual environment that holds edgepack as a wheel."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    scripts = folder / "env" / "bin"
    install(scripts, copied(ROOT, folder / "edgepack"))
    # Third-party packages and their programs come from the environment that runs the tests: nothing is fetched here.
    others = [path for path in sys.path if path.endswith("-packages")]
    (site_packages(scripts) / "third-party.pth").write_text("\n".join(others) + "\n")
    for program in Path(sysconfig.get_path("scripts")).iterdir():
        if not (scripts / program.name).exists():
            (scripts / program.name).symlink_to(program)
    return scripts


def install(environment: Path, *sources: Path) -> None:
    """Make a wheel of each folder, which pip writes into and beside, and install them."""
    wheels = sources[0].with_name(f"{sources[0].name}-wheels")
    _pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", wheels, *sources)
    _pip("install", "--no-deps", "--no-index", *wheels.glob("*.whl"), python=environment / "python")


def copied(distribution: Path, folder: Path) -> Path:
    """``folder`` with what git knows, or would, of a distribution's source."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."],
        cwd=distribution,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, tracked):
        if (distribution / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((distribution / name).read_bytes())
    return folder


def site_packages(environment: Path) -> Path:
    """Where it has its distributions."""
    return next((environment.parent / "lib").glob("python3*")) / "site-packages"


def run(environment: Path, *arguments: str | Path) -> str:
    """What its `edgepack` prints."""
    command = [str(environment / "edgepack"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _pip(command: str, *arguments: str | Path, python: Path = Path(sys.executable)) -> None:
    words = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "--disable-pip-version-check",
        command,
        "--quiet",
    ]
    done = subprocess.run([*map(str, [*words, *arguments])], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
