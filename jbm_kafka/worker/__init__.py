"""Handlers that a process runs until it is asked to end."""
