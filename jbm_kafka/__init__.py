"""JMS queues on plain Kafka topics: one at a time per unit of order, verdicts per message, dead letters once.

    from jbm_kafka import ConnectionFactory, Queue

    orders = Queue("orders")
    with ConnectionFactory("localhost:9092").create_context() as jms:  # "memory://any-name": without a broker
        jms.create_producer().send(orders, "2 books", unit_of_order="joe")
        message = jms.create_consumer(orders).receive(timeout=5)

A program begins with ConnectionFactory, and what its calls return goes on from there: Context, which is Connection and
Session in one, MessageProducer, MessageConsumer, Message. Their help() lists what each can do, by purpose.

    jbm_kafka.errors                what calls raise: each is a JMSError
    jbm_kafka.aio                   the same names, to be awaited
    jbm_kafka.admin                 Admin: make, count, look into, explain, move, retry, delete
    jbm_kafka.testing.memory_world  MemoryWorld: tests of applications without a broker, and with a clock that stands
    jbm_kafka.metrics               JbmCollector: the statistics of a connection for Prometheus
    jbm_kafka.otel                  instrument: traces of messages by OpenTelemetry
    jbm_kafka.outbox                Outbox, Relay, Inbox, XaTransaction: a database beside queues
    jbm_kafka.bridge                Bridge: to another queue, cluster or AMQP server
    jbm_spark                       queues for Spark: messages, events, audit, archive
    jbm_kafka.contract, .local      the interfaces of the JBoss Messaging core, and what has them in one process

For annotations there are UnitOfOrder, what `unit_of_order=` takes, and the functions that an application gives, whose
help() cannot tell more than their types:

    MessageListener     of consumer.set_listener: is called with each Message
    CompletionListener  of send(…, on_completion=…): with the Message, and the JMSError or None when the send is over
    ExceptionListener   of connection.exception_listener: with a JMSError that no call can raise

Other modules may change at any time. The command `jbm-kafka docs` prints the pages: tutorial to begin
with, api and api-admin for every name, settings for every setting, operating and runbook for operators.
"""

import sys

from jbm_kafka.supported import refusal

if reason := refusal(sys.platform, sys.version_info[:2], 64 if sys.maxsize > 2**32 else 32):
    raise ImportError(reason)

from importlib import import_module
from typing import TYPE_CHECKING

from jbm_kafka.compiled import leave_aside_if_asked

leave_aside_if_asked()

if TYPE_CHECKING:
    from jbm_kafka import errors
    from jbm_kafka.codec.object_codecs import register_object_codec
    from jbm_kafka.core.channel.branch import Xid
    from jbm_kafka.core.channel.states import MessageState
    from jbm_kafka.core.delivery_mode import DeliveryMode
    from jbm_kafka.core.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
    from jbm_kafka.core.sentinels import NO_UNIT, SYSTEM_GENERATED
    from jbm_kafka.core.settings.address_settings import AddressSettings
    from jbm_kafka.core.settings.pause_rule import PauseOn
    from jbm_kafka.core.statistics import DestinationStatistics, Health, Histogram, Statistics
    from jbm_kafka.jms.base.exception_listener import ExceptionListener
    from jbm_kafka.jms.base.modes import AcknowledgeMode
    from jbm_kafka.jms.browser import QueueBrowser
    from jbm_kafka.jms.connection import Connection, ConnectionMetadata
    from jbm_kafka.jms.consumer import MessageConsumer
    from jbm_kafka.jms.context import Context, ContextProducer
    from jbm_kafka.jms.factory import ConnectionFactory
    from jbm_kafka.jms.messages.bytes_message import BytesMessage
    from jbm_kafka.jms.messages.map_message import MapMessage
    from jbm_kafka.jms.messages.message import Message, TextMessage
    from jbm_kafka.jms.messages.object_message import ObjectMessage
    from jbm_kafka.jms.messages.received import KafkaView
    from jbm_kafka.jms.messages.stream_message import StreamMessage
    from jbm_kafka.jms.producer import MessageProducer
    from jbm_kafka.jms.receiving.inbox import MessageListener
    from jbm_kafka.jms.receiving.outcomes import Failed, Reject, Retry
    from jbm_kafka.jms.sender import Sender
    from jbm_kafka.jms.sends.routing import UnitOfOrder
    from jbm_kafka.jms.sends.send_reports import CompletionListener
    from jbm_kafka.jms.session import Session
    from jbm_kafka.jms.xa import XAConnection, XAConnectionFactory, XASession
    from jbm_kafka.worker.markers import Depends, Header
    from jbm_kafka.worker.message_worker import Worker

    __version__: str

__all__ = [
    "NO_UNIT",
    "SYSTEM_GENERATED",
    "AcknowledgeMode",
    "AddressSettings",
    "BytesMessage",
    "CompletionListener",
    "Connection",
    "ConnectionFactory",
    "ConnectionMetadata",
    "Context",
    "ContextProducer",
    "DeliveryMode",
    "Depends",
    "Destination",
    "DestinationStatistics",
    "ExceptionListener",
    "Failed",
    "Header",
    "Health",
    "Histogram",
    "KafkaView",
    "MapMessage",
    "Message",
    "MessageConsumer",
    "MessageListener",
    "MessageProducer",
    "MessageState",
    "ObjectMessage",
    "PauseOn",
    "Queue",
    "QueueBrowser",
    "Reject",
    "Retry",
    "Sender",
    "Session",
    "Statistics",
    "StreamMessage",
    "TemporaryQueue",
    "TemporaryTopic",
    "TextMessage",
    "Topic",
    "UnitOfOrder",
    "Worker",
    "XAConnection",
    "XAConnectionFactory",
    "XASession",
    "Xid",
    "__version__",
    "errors",
    "register_object_codec",
]

_HOME = {
    "NO_UNIT": "core.sentinels",
    "SYSTEM_GENERATED": "core.sentinels",
    "AcknowledgeMode": "jms.base.modes",
    "AddressSettings": "core.settings.address_settings",
    "BytesMessage": "jms.messages.bytes_message",
    "CompletionListener": "jms.sends.send_reports",
    "Connection": "jms.connection",
    "ConnectionFactory": "jms.factory",
    "ConnectionMetadata": "jms.connection",
    "Context": "jms.context",
    "ContextProducer": "jms.context",
    "DeliveryMode": "core.delivery_mode",
    "Depends": "worker.markers",
    "Destination": "core.destination",
    "DestinationStatistics": "core.statistics",
    "ExceptionListener": "jms.base.exception_listener",
    "Failed": "jms.receiving.outcomes",
    "Header": "worker.markers",
    "Health": "core.statistics",
    "Histogram": "core.statistics",
    "KafkaView": "jms.messages.received",
    "MapMessage": "jms.messages.map_message",
    "Message": "jms.messages.message",
    "MessageConsumer": "jms.consumer",
    "MessageListener": "jms.receiving.inbox",
    "MessageProducer": "jms.producer",
    "MessageState": "core.channel.states",
    "ObjectMessage": "jms.messages.object_message",
    "PauseOn": "core.settings.pause_rule",
    "Queue": "core.destination",
    "QueueBrowser": "jms.browser",
    "Reject": "jms.receiving.outcomes",
    "Retry": "jms.receiving.outcomes",
    "Sender": "jms.sender",
    "Session": "jms.session",
    "Statistics": "core.statistics",
    "StreamMessage": "jms.messages.stream_message",
    "TemporaryQueue": "core.destination",
    "TemporaryTopic": "core.destination",
    "TextMessage": "jms.messages.message",
    "register_object_codec": "codec.object_codecs",
    "Topic": "core.destination",
    "UnitOfOrder": "jms.sends.routing",
    "Worker": "worker.message_worker",
    "XAConnection": "jms.xa",
    "XAConnectionFactory": "jms.xa",
    "XASession": "jms.xa",
    "Xid": "core.channel.branch",
}
"""Where each name is made: imported when first asked for, since every part of the package comes through here, and
neither the codec in a Spark job nor `jbm-kafka broker` wants RocksDB and a Kafka client loaded."""

if not TYPE_CHECKING:  # a type checker would take it for "any name will do"

    def __getattr__(name: str) -> object:
        """The public name, from its module."""
        if name == "errors":
            return import_module("jbm_kafka.errors")
        if name == "__version__":
            from jbm_kafka.version import version

            return version()
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        value = getattr(import_module(f"jbm_kafka.{_HOME[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """The public names, also those that nobody has asked for yet."""
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
