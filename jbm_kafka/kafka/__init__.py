"""Kafka behind the ports of `jbm_kafka.ports`, over confluent-kafka. No confluent type but the record leaves here."""

from jbm_kafka.kafka.client import ConfluentKafka

__all__ = ["ConfluentKafka"]
