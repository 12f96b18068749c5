"""The JMS-like API: connections, sessions, producers, consumers and messages."""
