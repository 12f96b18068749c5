"""Who may use the console, and what keeps other web pages out of it."""
