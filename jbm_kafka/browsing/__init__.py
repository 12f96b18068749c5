"""The contents of a queue or subscription, computed from its topic and changelog without receiving."""
