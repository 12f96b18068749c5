"""The connection and the session that all producers and consumers share."""
