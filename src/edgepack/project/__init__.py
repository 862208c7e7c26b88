"""A project: several models for several targets, made together."""
