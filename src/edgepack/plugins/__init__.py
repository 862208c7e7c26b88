"""The plugin host: registration by hook, action by Protocol, nothing inherited."""
