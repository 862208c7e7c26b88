"""From operators to a finished library or program."""
