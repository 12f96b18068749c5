"""Follows what all queues and subscriptions of a namespace hold, for metrics and pictures."""
