"""Channels that are written nowhere: fed by a reader of the process, and served by one thread."""
