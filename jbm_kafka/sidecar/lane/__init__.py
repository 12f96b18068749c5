"""The lane of a channel group: the thread that owns its channels, and what it does there, turn by turn."""
