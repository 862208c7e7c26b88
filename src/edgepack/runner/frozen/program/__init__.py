"""The command line: its options, what it reads and writes, and what it says of the bundle and the device."""
