"""Architectures: those whose graph edgepack writes itself; others are PyTorch's, where it is installed."""

from collections.abc import Mapping
from importlib.util import find_spec

GRAPH_WRITERS: Mapping[str, str] = {
    "bert": "edgepack.models.export.bert:write_bert",
    "camembert": "edgepack.models.export.roberta:write_roberta",
    "distilbert": "edgepack.models.export.distilbert:write_distilbert",
    "mpnet": "edgepack.models.export.mpnet:write_mpnet",
    "nomic_bert": "edgepack.models.export.nomic_bert:write_nomic_bert",
    "roberta": "edgepack.models.export.roberta:write_roberta",
    "static-embedding": "edgepack.models.export.static:write_static",
    "xlm-roberta": "edgepack.models.export.roberta:write_roberta",
}
"""``model_type`` of config.json → the function that writes its graph from config and weights."""

INSTALL_PYTORCH = "pip install 'edgepack[export]'"


def has_pytorch() -> bool:
    """Whether PyTorch and transformers are installed."""
    return find_spec("torch") is not None and find_spec("transformers") is not None
