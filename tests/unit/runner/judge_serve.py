"""OpenAI's client, of a bundle's server."""

# ruff: noqa: F811

import base64
from pathlib import Path

import numpy as np
import openai
import pytest
from tests.support.embed_serve import Running, running
from tests.support.sample_program import Run, vectors_of
from tests.unit.runner.test_serve import TEXTS, server  # noqa: F401

pytestmark = pytest.mark.tools("c++", "python", may=("uname",))  # the client of OpenAI says where it runs


@pytest.fixture(scope="module")
def client(server: Running) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def test_the_openai_client_gets_what_the_program_gives(client: openai.OpenAI, run: Run) -> None:
    expected = vectors_of(run(*TEXTS).stdout)
    for form in ("float", "base64"):
        answer = client.embeddings.create(model="any", input=TEXTS, encoding_format=form)
        got = [
            np.frombuffer(base64.b64decode(row.embedding), "<f4").tolist()
            if isinstance(row.embedding, str)
            else row.embedding
            for row in answer.data
        ]
        assert np.array(got) == pytest.approx(np.array(expected), abs=1e-6)
        assert [row.index for row in answer.data] == [0, 1, 2]
        assert answer.model == "sample"
    # What the client asks for by itself is base64.
    assert client.embeddings.create(model="any", input="a cat").data[0].embedding == pytest.approx(
        expected[0], abs=1e-6
    )


def test_the_openai_client_sees_its_model_and_its_errors(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["sample"]
    with pytest.raises(openai.BadRequestError, match="does not support that dimension"):
        client.embeddings.create(model="any", input="a", dimensions=3)


def test_the_openai_client_says_the_token(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "token").chmod(0o600)
    with running(sample, "--token-file", str(tmp_path / "token")) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="s3cret", max_retries=0)
        assert len(client.embeddings.create(model="any", input="a").data) == 1
