"""Acknowledge modes: how a session settles the messages that its application got."""
