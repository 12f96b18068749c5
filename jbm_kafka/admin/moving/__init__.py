"""What a queue or topic holds, in a file and back; and topics that others copied."""
