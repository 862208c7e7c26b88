"""The bundle: assembled, listed, packed and verified."""
