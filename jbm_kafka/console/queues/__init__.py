"""Destinations in the console: the overview, one queue or subscription, and what is beside them."""
