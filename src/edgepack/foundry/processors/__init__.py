"""The processors of Linux that edgepack itself compiles for: one record each, as plugins bring them."""
