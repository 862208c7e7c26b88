"""Authenticode by a target's own command, as docs/windows.md has it, with a certificate made on the spot."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.windows_library import compile_for_windows
from tests.support.wine import required_wine

from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack_windows.imports import imports_of, is_signed
from edgepack_windows.layout import layout_of, sign_file

pytestmark = [
    pytest.mark.tools("osslsigncode", "openssl", may=("zig", "env", "wine64")),
    pytest.mark.skipif(shutil.which("osslsigncode") is None, reason="osslsigncode is not installed"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]
DOCS = Path(__file__).parents[2] / "docs/windows.md"
PROGRAM = """
__declspec(dllimport) void ExitProcess(unsigned code);
void start(void) { ExitProcess(43); }
"""


@pytest.fixture(scope="module")
def manual() -> str:
    text = DOCS.read_text(encoding="utf-8")
    return text[text.index("## Authenticode") :].replace("\\\n", " ")


@pytest.fixture
def team(manual: str, tmp_path: Path) -> Path:
    """A folder with the key and the certificate that the manual's command makes."""
    (command,) = re.findall(r"^openssl req .*$", manual, re.M)
    subprocess.run(shlex.split(command), cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_the_manuals_command_signs_program_and_library(
    context: HostContext, manual: str, team: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the timestamp, which somebody else's server makes."""
    monkeypatch.chdir(team)
    (said,) = re.findall(r"--set 'authenticode=(.*?)'", manual)
    command, servers = re.subn(r" -ts http\S+", "", said)
    assert servers == 1
    for name in ("team.pem", "team.key"):
        command = command.replace(name, str(team / name))
    (team / "program.c").write_text(PROGRAM)
    unsigned = compile_for_windows(team / "program.c", team / "unsigned.exe")
    target = load_plugins().target("windows-x64", [f"authenticode={command}"])
    options = {"serve": False, **target.options}
    layout = layout_of(target, options, context=context)
    for name in ("embed.exe", "embed.dll"):
        signed = team / name
        sign_file(unsigned, signed, layout=layout)
        assert is_signed(signed.read_bytes()) and not is_signed(unsigned.read_bytes())
        assert imports_of(signed.read_bytes()) == imports_of(unsigned.read_bytes())
        assert verified(manual, signed)
        content = bytearray(signed.read_bytes())
        content[0x400] ^= 1
        (team / "changed.exe").write_bytes(content)
        assert not verified(manual, team / "changed.exe")
    run = ["env", "-i", *required_wine().command("x86_64"), team / "embed.exe"]
    assert subprocess.run(run, check=False).returncode == 43


def verified(manual: str, file: Path) -> bool:
    """By the manual's command; the certificate is its own authority."""
    (command,) = re.findall(r"^osslsigncode verify .*$", manual, re.M)
    words = shlex.split(command.replace("authority.pem", "team.pem"))
    done = subprocess.run([*words[:-1], file], cwd=file.parent, check=False, capture_output=True, text=True)
    return done.returncode == 0 and "Signature verification: ok" in done.stdout
