"""Dead letters, by what went wrong."""
