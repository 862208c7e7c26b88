"""For plugin authors: what a builder must keep to, as tests."""
