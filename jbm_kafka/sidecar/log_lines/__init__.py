"""The log lines of partitions, messages and connections, at most one an event."""
