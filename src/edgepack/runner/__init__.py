"""The runner: the program in the bundle that turns text into vectors, and how it is frozen."""
