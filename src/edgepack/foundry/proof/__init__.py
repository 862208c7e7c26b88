"""Whether a finished runtime runs a model right, for each CPU feature level."""
