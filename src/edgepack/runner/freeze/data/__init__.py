"""Licence texts of what is frozen in, for machines that do not have them."""
