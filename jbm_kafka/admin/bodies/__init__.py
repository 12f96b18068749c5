"""Large bodies outside Kafka: which there are, which are still named, and the removal of the others."""
