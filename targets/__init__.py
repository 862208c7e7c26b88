"""The built-in targets, one TOML file each."""
