"""The actions of an operator on messages that wait: move, remove, expire, dead-letter, release."""
