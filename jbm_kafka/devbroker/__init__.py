"""A real Apache Kafka on this machine, for development and tests."""

from jbm_kafka.devbroker.broker import BrokerStatus, LocalBroker
from jbm_kafka.devbroker.broker_error import LocalBrokerError
from jbm_kafka.devbroker.probe import answers, anybody_answers, wait_answers

__all__ = ["BrokerStatus", "LocalBroker", "LocalBrokerError", "answers", "anybody_answers", "wait_answers"]
