"""A newcomer's ten minutes: a fresh environment, the wheel with pip, a fine-tuned model, and the README's commands alone."""

import json
import re
import select
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from tests.support.strangers import ROOT, copied

from edgepack.records.model import ModelSource
from edgepack.verifier.gate import verification_texts

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3600)]

README = (ROOT / "README.md").read_text(encoding="utf-8")
IN_SDIST = (
    *(
        "LICENSE",
        "SECURITY.md",
        "action.yml",
        "mkdocs.yml",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Makefile",
        "README.md",
        "pyproject.toml",
        "setup.py",
    ),
    *("tests/conftest.py", "tests/e2e/judge_newcomer.py", "tests/golden/api.txt", "docs/install.md"),
    *("targets/linux-x86-min.toml", "plugins/edgepack_linux/__init__.py", "benchmarks/runner.py"),
)


def said(command: str, **instead: str) -> list[str]:
    """The words of a command that the README says, some of them of one's own."""
    assert re.search(rf"(^|`){re.escape(command)}(\s|`|$)", README, re.MULTILINE), (
        f"not in the README: {command}"
    )
    for old, new in instead.items():
        assert old in command
        command = command.replace(old, new)
    return command.split()


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    source = copied(ROOT, folder / "edgepack")
    build = "from setuptools import build_meta; build_meta.build_sdist('..')"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def test_the_source_distribution_can_be_tested(sdist: Path) -> None:
    assert [name for name in IN_SDIST if not (sdist / name).is_file()] == []
    tests = {file.relative_to(ROOT) for file in (ROOT / "tests").rglob("*.py")}
    assert {name for name in tests if not (sdist / name).is_file()} == set()


@pytest.fixture(scope="module")
def newcomer(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of an environment with the wheel of that source, and all that pip finds that it needs."""
    folder = tmp_path_factory.mktemp("newcomer")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [f"{folder}/venv/bin/python", "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", f"{folder}/wheels", str(sdist)], check=True)
    (wheel,) = (folder / "wheels").glob("edgepack-*.whl")
    subprocess.run([*pip, "install", f"{wheel}[build]"], check=True)
    return folder / "venv/bin"


@pytest.fixture(scope="module")
def own_model(minilm: ModelSource, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As after a little training: MiniLM's weights moved by a hundredth, pooled by [CLS], saved by sentence-transformers."""
    import torch

    transformer = Transformer(str(minilm.directory), max_seq_length=128)
    noise = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weight in transformer.parameters():
            weight += 0.01 * weight.std(correction=0) * torch.randn(weight.shape, generator=noise)
    modules: list[Any] = [
        transformer,
        Pooling(transformer.get_embedding_dimension(), pooling_mode="cls"),
        Normalize(),
    ]
    folder = tmp_path_factory.mktemp("work") / "my-model"
    SentenceTransformer(modules=modules, device="cpu").save(str(folder))
    return folder


@contextmanager
def serving(command: list[str], folder: Path) -> Iterator[str]:
    """The address of a server, from its first words on stderr."""
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            assert select.select([server.stderr], [], [], 120)[0], "it says nothing"
            found = re.search(r"http://[\d.:]+", line := server.stderr.readline())
            assert found is not None, line
            yield found[0]
        finally:
            server.terminate()


def test_own_model_bundled_verified_served_and_asked_by_the_readme(newcomer: Path, own_model: Path) -> None:
    work = own_model.parent

    def run(words: list[str]) -> str:
        done = subprocess.run(
            [newcomer / words[0], *words[1:]], cwd=work, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    inspected = json.loads(run([*said("edgepack inspect ./my-model"), "--json"]))
    assert inspected["pooling"]["mode"] == "cls"
    for more in ([], ["--target", "linux-x86"]):
        assert "verified ✓" in run([*said("edgepack bundle ./my-model"), *more])
    made = "dist/my-model-linux-x86"
    verify = "edgepack verify dist/all-MiniLM-L6-v2-linux-x86-min"
    assert "verified ✓" in run(said(verify, **{"dist/all-MiniLM-L6-v2-linux-x86-min": made}))

    texts = verification_texts()[:40]
    reference = SentenceTransformer(str(own_model), device="cpu").encode(list(texts))
    mean = SentenceTransformer(str(own_model), device="cpu")
    pooling: Any = mean[1]
    pooling.pooling_mode = "mean"
    serve = said("./embed serve --port 8080", **{"8080": "0"})
    with serving(serve, work / made) as address:
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="none")
        answer = client.embeddings.create(model="my-model", input=list(texts), encoding_format="float")
    vectors = np.array([each.embedding for each in answer.data])
    cosines = (vectors * reference).sum(axis=1)
    assert cosines.mean() > 0.985 and cosines.min() > 0.97, cosines
    others = (vectors * mean.encode(list(texts))).sum(axis=1)
    assert others.mean() < 0.97, "vectors of another pooling would not pass"
