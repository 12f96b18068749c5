"""JMS queues on plain Kafka topics: one at a time per unit of order, verdicts per message, dead letters once."""
