"""``embed search``: the texts of a file that are nearest to a query."""
