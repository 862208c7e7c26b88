"""The frozen program: a thin Python around the C++ program, which does everything but what only Python can."""
