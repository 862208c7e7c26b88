"""Tasks of the full gate: real texts whose judgements or pairs are known."""
