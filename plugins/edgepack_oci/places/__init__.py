"""Where it goes: registries, and folders."""
