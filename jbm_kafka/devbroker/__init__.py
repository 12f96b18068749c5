"""A real Apache Kafka on this machine, for development and tests."""

from jbm_kafka.devbroker.broker import BrokerStatus, LocalBroker
from jbm_kafka.devbroker.errors import LocalBrokerError
from jbm_kafka.devbroker.probe import answers, wait_answers

__all__ = ["BrokerStatus", "LocalBroker", "LocalBrokerError", "answers", "wait_answers"]
