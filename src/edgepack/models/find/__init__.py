"""Models found: by name, in a folder, a wheel, a hub, at an address."""
