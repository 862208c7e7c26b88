"""A stand-in for Windows behind OpenSSH: takes the lines that ``device.windows`` writes, refuses all others, and does with files what they say.

``python fake_cmd.py FOLDER SHELL LINE``: ``C:\\tmp`` is the folder, SHELL is ``cmd`` or ``powershell``. What cmd.exe itself makes of the lines it does not show.
"""

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = "C:\\tmp"
VARIABLES = {
    "OS": "Windows_NT",
    "TEMP": ROOT,
    "PROCESSOR_ARCHITECTURE": "AMD64",
    "PROCESSOR_IDENTIFIER": "Intel64 Family 6",
    "NUMBER_OF_PROCESSORS": "4",
}


class RefusedError(Exception):
    """A line that is not one of ours."""


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main(folder: Path, shell: str, line: str) -> int:
    if line == "echo edgepack:%OS%:":
        say(line[5:] if shell == "powershell" else expanded(line[5:]))
        return 0
    verbatim = r"--% " if shell == "powershell" else ""
    found = re.fullmatch(
        rf'cmd {verbatim}/d /v:on /s /c "\((.*)\) & echo (\S+):!errorlevel! 1>&2"', line, re.DOTALL
    )
    if found is None:
        sys.stderr.write(f"'{line.split()[0]}' is not recognized as an internal or external command" + "\n")
        return 1
    sys.stdout.flush()
    code = run(folder, expanded(found[1]))
    sys.stdout.flush()
    sys.stderr.write(f"{found[2]}:{code} \n")
    return 0


def expanded(text: str) -> str:
    return re.sub(r"%([A-Z_]+)%", lambda name: VARIABLES[name[1]], text)


def run(folder: Path, command: str) -> int:
    if made := re.fullmatch(
        r'mkdir "(.*)" && \(for %f in \("(.*)"\) do @echo %~ff\) \|\| cmd /c exit (\d+)', command
    ):
        here(folder, made[1]).mkdir(mode=0o700)
        say(made[2])
        return 0
    if removed := re.fullmatch(r'powershell -NoProfile .* >nul 2>nul & rmdir /s /q "(.*)"', command):
        shutil.rmtree(here(folder, removed[1]))
        return 0
    if inside := re.fullmatch(r'cd /d "([^"]*)" && (.*)', command):
        return in_folder(here(folder, inside[1]), inside[1], inside[2])
    for each in command.split(" & "):
        if each.startswith("for /f"):
            say("kernel=Microsoft Windows [Version 10.0.26100.1]")
        elif each.startswith("echo "):
            say(each[5:])
        else:
            raise RefusedError(each)
    return 0


def in_folder(place: Path, named: str, command: str) -> int:
    if command in ("tar -xf -", "tar -cf - ."):
        return subprocess.run(command.split(), cwd=place, check=False).returncode
    words = re.findall(r'"([^"]*)"', command)
    if command.startswith("certutil"):
        for each in command.split(" && "):
            (name,) = re.fullmatch(r'certutil -hashfile "(.*)" SHA256', each).groups()  # type: ignore[union-attr]
            digest = hashlib.sha256((place / name.replace("\\", "/")).read_bytes()).hexdigest()
            say(f"SHA256 hash of {name}:\n{digest}\nCertUtil: -hashfile command completed successfully.")
        return 0
    if words and words[0].startswith(f"{named}\\"):
        program = place / words[0].removeprefix(f"{named}\\").replace("\\", "/")
        return subprocess.run([program, *words[1:]], cwd=place, check=False).returncode
    raise RefusedError(command)


def here(folder: Path, path: str) -> Path:
    assert path.startswith(f"{ROOT}\\"), path
    return folder / path.removeprefix(f"{ROOT}\\").replace("\\", "/")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
