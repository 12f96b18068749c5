"""Temporary destinations: channels of which nothing is recorded."""
