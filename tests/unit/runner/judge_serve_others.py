"""The clients of Ollama and of Hugging Face, of a bundle's server."""

# ruff: noqa: F811

import os
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import ollama
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError
from tests.support.embed_serve import Running, running
from tests.support.sample_program import run_program, vectors_of
from tests.unit.runner.test_serve_others import server  # noqa: F401

pytestmark = pytest.mark.tools("c++", "python", may=("uname",))  # a client says where it runs

TEXTS = ["a cat", "the kitten sat"]


@pytest.fixture(scope="module")
def vectors(sample: Path) -> Any:
    """float32 [texts, dimension]"""
    return np.array(vectors_of(run_program(sample, *TEXTS).stdout), dtype=np.float32)


def test_the_ollama_client_gets_what_the_program_gives(server: Running, vectors: Any) -> None:
    with ollama.Client(host=server.url) as client:
        answer = client.embed(model="any", input=TEXTS)
        assert np.array(answer.embeddings) == pytest.approx(vectors, abs=1e-6)
        assert (answer.model, answer.prompt_eval_count) == ("sample", 4 + 5)
        assert answer.total_duration
        one = client.embed(model="any", input=TEXTS[0], dimensions=4, truncate=False, keep_alive="5m")
        assert np.shape(one.embeddings) == (1, 4)
        assert list(client.embeddings(model="any", prompt=TEXTS[0]).embedding) == pytest.approx(
            vectors[0], abs=1e-6
        )
        (model,) = client.list().models
        assert (model.model, model.details and model.details.format) == ("sample", "onnx")
        with pytest.raises(ollama.ResponseError, match="does not support") as refused:
            client.embed(model="any", input="a", dimensions=3)
        assert refused.value.status_code == 400


def test_the_client_of_hugging_face_gets_what_the_program_gives(
    server: Running, vectors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else it asks its home who might be using it.
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    client = huggingface_hub.InferenceClient(model=f"{server.url}/embed")
    assert client.feature_extraction(TEXTS) == pytest.approx(vectors, abs=1e-6)
    one = client.feature_extraction(
        "cat", normalize=True, truncate=True, prompt_name="query", truncation_direction="right"
    )
    assert one.shape == (1, 8)
    assert one == pytest.approx(np.array(server.ask("/embed", {"inputs": ["the cat"]}).json), abs=1e-6)
    with pytest.raises(HfHubHTTPError, match="413"):
        client.feature_extraction("a", prompt_name="title")
    huggingface_hub.close_session()


def test_the_ollama_client_says_the_token(sample: Path) -> None:
    environment = {**os.environ, "EMBED_TOKEN": "s3cret"}
    with (
        running(sample, "--cors", "*", environment=environment) as server,
        ollama.Client(host=server.url, headers={"Authorization": "Bearer s3cret"}) as client,
    ):
        assert len(client.embed(model="any", input="a").embeddings) == 1
