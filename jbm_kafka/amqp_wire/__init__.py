"""The part that the AMQP server and the AMQP client share: Proton's engine on one thread, errors by name, SASL
frames."""
