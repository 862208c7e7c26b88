"""The adapters of docs/howto/integrations.md, run as they stand there: with the sample bundle as the wheel ``my_model``."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.golden import ROOT
from tests.support.pages import blocks
from tests.support.sample_program import run_program, vectors_of

from edgepack.files.store import Store, default_root

pytestmark = pytest.mark.tools("c++", "python")

PAGE = ROOT / "docs/howto/integrations.md"

FRAMEWORKS = ("langchain-core>=1.0", "llama-index-core>=0.14", "chromadb>=1.5")

TEXTS = ["a cat", "the kitten sat", "mat"]
"""Each is nearest to itself, and the second to the query "kitten"."""

CHECKED = """
import json, sys
import numpy as np
expected = np.array(json.loads(sys.argv[1]), "float32")
texts = ["a cat", "the kitten sat", "mat"]
def check(got):
    np.testing.assert_allclose(np.array(got, "float32"), expected, atol=1e-6)
"""

USES = {
    "SentenceTransformer": """
model = Model()
check(model.encode(texts))
check([model.encode(text) for text in texts])
assert model.encode(texts).dtype == "float32" and model.encode("a cat").shape == (8,)
check(model.encode(texts, normalize_embeddings=True, batch_size=2, convert_to_numpy=False))
check(model.encode(["a cat", "kitten", "mat"], prompt_name="passage")[[0, 0, 2]] * [[1], [0], [1]] + expected * [[0], [1], [0]])
assert (model.encode("kitten", prompt_name="query") == model.encode("the kitten")).all()
""",
    "Embeddings": """
from langchain_core.vectorstores import InMemoryVectorStore
check(BundleEmbeddings().embed_documents(texts))
check([BundleEmbeddings().embed_query(text) for text in texts])
store = InMemoryVectorStore.from_texts(texts, BundleEmbeddings())
assert store.similarity_search("kitten", k=1)[0].page_content == "the kitten sat"
""",
    "BaseEmbedding": """
import asyncio
from llama_index.core import Document, VectorStoreIndex
model = BundleEmbedding()
check(model.get_text_embedding_batch(texts))
check([model.get_query_embedding(text) for text in texts])
check([asyncio.run(model.aget_query_embedding(text)) for text in texts])
index = VectorStoreIndex.from_documents([Document(text=text) for text in texts], embed_model=model, transformations=[])
assert index.as_retriever(similarity_top_k=1).retrieve("kitten")[0].text == "the kitten sat"
""",
    "EmbeddingFunction": """
import chromadb
from chromadb.config import Settings
check(BundleFunction()(texts))
client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
collection = client.create_collection("texts", embedding_function=BundleFunction(), configuration={"hnsw": {"space": "cosine"}})
collection.add(ids=["0", "1", "2"], documents=texts)
assert collection.query(query_texts=["kitten"], n_results=1)["ids"] == [["1"]]
""",
}


def code(words: str) -> str:
    """The one block of Python in the page that has these words."""
    (found,) = [block.text for block in blocks(PAGE) if block.language == "python" and words in block.text]
    return found


@pytest.fixture(scope="module")
def my_model(native_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, as pip lays it."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "plugins/edgepack_wheel/module", folder / "my_model")
    (folder / "my_model/bundle").symlink_to(native_sample)
    return folder


@pytest.fixture(scope="module")
def expected(native_sample: Path) -> list[list[float]]:
    return vectors_of(run_program(native_sample, *TEXTS).stdout)


def run(script: str, expected: list[list[float]], *folders: Path) -> None:
    """In a Python that has what lies in the folders, and its own library alone."""
    done = subprocess.run(
        [
            str(vars(sys).get("_base_executable", sys.executable)),
            "-W",
            "ignore",
            "-c",
            CHECKED + script,
            json.dumps(expected),
        ],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folders[0]),
            "PYTHONPATH": os.pathsep.join(map(str, folders)),
        },
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_code_for_sentence_transformers(my_model: Path, expected: list[list[float]]) -> None:
    numpy = Path(np.__file__).parents[1]
    run(code("class Model:") + USES["SentenceTransformer"], expected, my_model, numpy)


@pytest.fixture(scope="module")
def frameworks() -> Path:
    """A folder with the real packages, from the cache where they are there; 0.7 GB."""

    def install(folder: Path) -> None:
        options = ["--quiet", "--disable-pip-version-check", "--target", str(folder)]
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", *options, *FRAMEWORKS],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            pytest.skip(f"pip cannot install {', '.join(FRAMEWORKS)}: {done.stderr.splitlines()[-1]}")

    inputs = {"packages": " ".join(FRAMEWORKS), "python": sys.version}
    return Store(root=default_root()).cached("test-frameworks", inputs, install)


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("base", ["Embeddings", "BaseEmbedding", "EmbeddingFunction"])
def test_the_adapter_for(base: str, my_model: Path, frameworks: Path, expected: list[list[float]]) -> None:
    run(code(f"({base}") + USES[base], expected, my_model, frameworks)
