"""Where programs of bundles run: within limits, and where this host has a sandbox, with nothing of the disk but what is named."""
