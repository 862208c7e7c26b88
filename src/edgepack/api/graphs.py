"""What plugins may import to write the graphs of architectures, and to edit graphs in passes.

- Writing: a ``GraphWriter`` collects nodes and weights, a ``TensorFile`` has the model's tensors. Most encoders are BERT in other
  words: ``open_encoder`` and what works on an ``Encoder`` write their parts in the shapes that are fused later.
- Editing: ``edit`` begins to rewrite a model; a ``GraphEditor`` keeps, replaces and adds nodes and weights.
"""

from edgepack.api.names import homes, listing, lookup

HOMES = homes(__file__)
__all__ = sorted(HOMES)
__getattr__ = lookup(__name__, HOMES)
__dir__ = listing(HOMES)
