"""What sentence-transformers makes of a model folder, beside what edgepack makes of it."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from edgepack.context import BuildContext
from edgepack.errors import MissingToolError
from edgepack.models.find.source import ingest
from edgepack.models.reference import reference_vectors

JUDGE = "sentence_transformers"


def difference_from_judge(folder: Path, texts: Sequence[str], *, context: BuildContext) -> float:
    """The largest difference of a number of the texts' vectors from what the sentence-transformers package makes of a folder.

    Of the full-precision graph, without a recipe. Raises ``MissingToolError`` where the package is not installed.
    """
    if find_spec(JUDGE) is None:
        raise MissingToolError(
            "sentence-transformers, the judge of the model, is not installed",
            hint="pip install sentence-transformers",
        )
    from sentence_transformers import SentenceTransformer

    source = ingest(str(folder), context=context)
    ours = reference_vectors(source, texts, context=context)
    judge = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    theirs = np.stack([judge.encode(text, prompt="", show_progress_bar=False) for text in texts])
    return float(np.abs(ours - theirs).max())
