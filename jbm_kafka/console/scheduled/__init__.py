"""Messages that wait for a time."""
