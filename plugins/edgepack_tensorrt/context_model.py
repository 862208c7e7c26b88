"""The EPContext model: an ONNX file of one node that says which engine to load.

The node's schema is ONNX Runtime's (``com.microsoft.EPContext``,
https://onnxruntime.ai/docs/execution-providers/EP-Context-Design.html). The provider takes the node for its own by
``source``, and the engine from the file that ``ep_cache_context`` names, which must lie beside the model or below.
"""

from collections.abc import Iterable
from pathlib import Path

DOMAIN = "com.microsoft"
PARTITION = "edgepack"
"""What the engine's part of the graph is called; the provider names its runtime cache after it."""


def write_context_model(
    output: Path, *, like: Path, engine: str, provider: str, tensorrt: str, capabilities: Iterable[str]
) -> None:
    """Write a model with the inputs and outputs of ``like`` whose only node loads ``engine``, a file's name."""
    import onnx
    from onnx import helper

    graph = onnx.load(str(like), load_external_data=False).graph
    node = helper.make_node(
        "EPContext",
        [each.name for each in graph.input],
        [each.name for each in graph.output],
        name=PARTITION,
        domain=DOMAIN,
        main_context=1,
        embed_mode=0,
        ep_cache_context=engine,
        ep_sdk_version=tensorrt,
        hardware_architecture=",".join(f"sm{each.replace('.', '')}" for each in capabilities),
        partition_name=PARTITION,
        source=provider,
        onnx_model_filename=like.name,
    )
    opset = next(
        each
        for each in onnx.load(str(like), load_external_data=False).opset_import
        if each.domain in ("", "ai.onnx")
    )
    model = helper.make_model(
        helper.make_graph([node], PARTITION, graph.input, graph.output),
        opset_imports=[opset, helper.make_opsetid(DOMAIN, 1)],
        producer_name="edgepack",
        ir_version=10,
    )
    output.write_bytes(model.SerializeToString(deterministic=True))
