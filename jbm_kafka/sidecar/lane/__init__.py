"""The owner thread of a channel group: its turn, its links, its membership."""
