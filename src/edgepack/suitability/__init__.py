"""Which targets take a model, decided before anything is made; and what was measured of each target."""
