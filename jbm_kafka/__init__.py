"""JMS queues on plain Kafka topics: one at a time per unit of order, verdicts per message, dead letters once."""

from jbm_kafka import errors
from jbm_kafka.core.address_settings import AddressSettings
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.markers import NO_UNIT, SYSTEM_GENERATED
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.jms.messages import BytesMessage, Message, TextMessage
from jbm_kafka.jms.modes import AcknowledgeMode

__all__ = [
    "NO_UNIT",
    "SYSTEM_GENERATED",
    "AcknowledgeMode",
    "AddressSettings",
    "BytesMessage",
    "ConnectionFactory",
    "DeliveryMode",
    "Message",
    "Queue",
    "TextMessage",
    "errors",
]
