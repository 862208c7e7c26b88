"""What was recorded of a finished bundle, and whose word that is."""
