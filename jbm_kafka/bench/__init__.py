"""The benchmark: jbm-kafka beside Kafka's own clients, on the same broker, in the same run."""
