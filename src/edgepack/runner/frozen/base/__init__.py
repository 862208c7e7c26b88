"""What every part of the program stands on: the manifest, errors, signals, threads, the standard streams."""
