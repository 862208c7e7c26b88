"""The bundle at work in Node: its vectors, and its tokenizer beside the real one."""

import json
from pathlib import Path

from edgepack.api import BuildContext, ModelSource, ProofError, kit
from edgepack_web.npm.node import find_node

HERE = Path(__file__).with_name("node")
NODE_PROGRAM = "node.mjs"
FUZZ_TEXTS = 5000
SECONDS = 600
"""For all texts, of which published models take seconds: JavaScript tries a regular expression in ways that tokenizers gives up."""


def write_node_program(root: Path) -> None:
    """The program by which the host, or anybody with Node, runs the page's own module: JSON lines in, JSON lines out."""
    (root / NODE_PROGRAM).write_bytes((HERE / NODE_PROGRAM).read_bytes())


def require_same_tokens(root: Path, source: ModelSource, *, context: BuildContext) -> int:
    """Compare the page's tokenizer with the real one on the verification texts and on fuzz texts of all scripts.

    Returns how many texts were compared. Raises ``ProofError`` that shows the first text that differs.
    """
    cases = kit.tokenizer_cases(source, FUZZ_TEXTS)
    longest = min(source.max_length, 128)
    question = json.dumps({"longest": longest, "texts": [text for text, _, _ in cases]})
    command = [find_node(), HERE / "tokenize.mjs", root.absolute()]
    answer = json.loads(context.run(command, input=question, timeout=SECONDS))
    for (text, ids, types), found in zip(cases, answer, strict=True):
        # The real tokenizer makes nothing of some texts where it adds no special tokens; the page then takes padding.
        if ids and (ids, types) != (found["ids"], found["types"]):
            raise ProofError(
                f"the tokenizer in JavaScript differs for {text[:80]!r}: {found['ids'][:20]} instead of {ids[:20]}",
                hint="this model's tokenizer is not supported in browsers yet",
            )
    return len(cases)
