"""What an operator does to messages that wait: move, remove, expire, dead-letter, release."""
