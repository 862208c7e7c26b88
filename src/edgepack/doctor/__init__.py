"""Are these the model's vectors, and if not, which mistake makes them?"""
