"""The bundle's model, loaded as the command line says."""

from argparse import Namespace

from ..base.bundle import Bundle
from ..base.signals import answer_aborts
from ..base.streams import is_terminal, say
from ..model.embedder import Embedder


def load(bundle: Bundle, options: Namespace) -> Embedder:
    """Raises what ``Embedder`` raises."""
    answer_aborts()
    embedder = Embedder(
        bundle,
        batch_size=options.batch_size,
        threads=options.threads,
        max_length=options.max_length,
        prefix=options.prefix,
        dimension=options.dim,
        allow_cpu=options.allow_cpu,
        alone=options.similarity is not None or len(options.texts) == 1,
    )
    if is_terminal(2):
        say(embedder.model.at_start())
    return embedder
