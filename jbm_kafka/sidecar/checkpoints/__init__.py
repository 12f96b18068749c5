"""Checkpoints: what each takes, the transaction it is, and what happens after a failure."""
