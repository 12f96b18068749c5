"""Messages as applications see them, and their way into records and out of them."""
