"""The contents of a queue or topic, into a file and back; and topics that others copied."""
