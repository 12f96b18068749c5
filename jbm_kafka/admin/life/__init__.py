"""One message's life, from topics alone."""
