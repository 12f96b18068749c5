"""What sessions do, whoever provides the messages: no I/O, no thread, no clock."""
