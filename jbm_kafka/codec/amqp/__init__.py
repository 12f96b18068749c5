"""Messages as AMQP 1.0 carries them, and the records that stand for them."""
