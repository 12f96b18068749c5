"""Where large bodies are kept, beside Kafka."""
