"""What a program is built for. Written anew when a program that refuses unsigned bundles is frozen."""

BUILT_FOR = ""
"""The public key that every bundle has to be signed with, in PEM; empty: where the user asks for it."""
