"""The cluster that is administered: how it is reached, and what queues, topics and subscriptions it has."""
