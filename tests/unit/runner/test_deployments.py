"""What docs/howto/docker.md and docs/howto/systemd.md have people deploy."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.support.embed_serve import running
from tests.support.golden import ROOT
from tests.support.pages import blocks

pytestmark = pytest.mark.tools("python", "bash", may=("systemd-analyze",))

DOCKER = ROOT / "docs/howto/docker.md"
SYSTEMD = ROOT / "docs/howto/systemd.md"


def code(page: Path, language: str, words: str) -> str:
    (found,) = [block.text for block in blocks(page) if block.language == language and words in block.text]
    return found


def test_the_container_is_healthy_while_the_server_answers(sample: Path) -> None:
    dockerfile = code(DOCKER, "dockerfile", "HEALTHCHECK")
    (written,) = re.findall(r"^HEALTHCHECK CMD (.*)$", dockerfile, re.MULTILINE)
    command: list[str] = json.loads(written)
    assert '"--port", "8080"' in dockerfile
    with running(sample) as server:
        asked = [word.replace("8080", str(server.port)) for word in command]
        assert subprocess.run(asked, capture_output=True, check=False).returncode == 0
        server.process.kill()
        server.process.wait()
        assert subprocess.run(asked, capture_output=True, check=False).returncode != 0


def test_the_token_is_where_the_server_looks_for_it(sample: Path, tmp_path: Path) -> None:
    service = yaml.safe_load(code(DOCKER, "yaml", "secrets"))["services"]["embed"]
    (secret,) = service["secrets"]
    assert service["environment"] == {"EMBED_TOKEN_FILE": f"/run/secrets/{secret}"}
    token = tmp_path / secret
    token.write_text("s3cret\n")
    token.chmod(0o600)
    with running(sample, "--host", "0.0.0.0", environment={"EMBED_TOKEN_FILE": str(token)}) as server:
        assert server.embed("a").status == 401
        assert server.ask("/v1/embeddings", {"input": "a"}, authorization="Bearer s3cret").status == 200


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd on this machine")
def test_systemd_takes_the_unit_with_and_without_the_token(tmp_path: Path) -> None:
    units = tmp_path / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    for name in ("sysinit.target", "basic.target", "network.target", "shutdown.target", "multi-user.target"):
        (units / name).write_text("[Unit]\nDefaultDependencies=no\n")
    unit, dropped_in = code(SYSTEMD, "ini", "[Install]"), code(SYSTEMD, "ini", "EMBED_TOKEN_FILE")
    program = re.findall(r"^ExecStart=/(\S+)", unit, re.MULTILINE)[0]
    (tmp_path / program).parent.mkdir(parents=True)
    (tmp_path / program).touch(mode=0o755)
    (units / "embed.service").write_text(unit)
    for drop_in in (None, dropped_in):
        if drop_in:
            (units / "embed.service.d").mkdir()
            (units / "embed.service.d/token.conf").write_text(drop_in)
        done = subprocess.run(
            ["systemd-analyze", "verify", f"--root={tmp_path}", "--man=no", "embed.service"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, "embed.service" in done.stderr) == (0, False), done.stderr
