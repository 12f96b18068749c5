"""Messages of a queue or subscription, one of them with its body, and its life."""
