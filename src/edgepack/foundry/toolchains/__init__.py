"""The compilers, and what they bring along."""
