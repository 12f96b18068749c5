"""The contents of a queue, page by page, and one message of it."""
