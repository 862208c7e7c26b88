"""What a bundle gives beside, or in the place of, one vector a text, measured beside the full-precision model."""
