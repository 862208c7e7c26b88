"""Updates of bundles: what changes between two, what an update weighs and costs, deltas, and artifacts of RAUC and Mender."""
