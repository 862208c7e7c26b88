"""``embed serve``: vectors over HTTP."""
