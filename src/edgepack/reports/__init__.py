"""The report: what a bundle weighs and what its downloads cost."""
