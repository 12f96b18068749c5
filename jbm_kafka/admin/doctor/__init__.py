"""Finds what of an installation is not as it should be, and the remedy: what there is (looked up), and what follows of
it."""
