"""Our own seams: what lies on either side knows only these."""

from jbm_kafka.ports.clock import Clock as Clock
from jbm_kafka.ports.kafka import UNREADABLE as UNREADABLE
from jbm_kafka.ports.kafka import AccessRefused as AccessRefused
from jbm_kafka.ports.kafka import CommittedOffset as CommittedOffset
from jbm_kafka.ports.kafka import GroupConsumer as GroupConsumer
from jbm_kafka.ports.kafka import GroupFenced as GroupFenced
from jbm_kafka.ports.kafka import GroupListener as GroupListener
from jbm_kafka.ports.kafka import Headers as Headers
from jbm_kafka.ports.kafka import Kafka as Kafka
from jbm_kafka.ports.kafka import KafkaAdmin as KafkaAdmin
from jbm_kafka.ports.kafka import KafkaRecord as KafkaRecord
from jbm_kafka.ports.kafka import KafkaTrouble as KafkaTrouble
from jbm_kafka.ports.kafka import LogReader as LogReader
from jbm_kafka.ports.kafka import OutcomeUnknown as OutcomeUnknown
from jbm_kafka.ports.kafka import Outgoing as Outgoing
from jbm_kafka.ports.kafka import PositionOutOfRange as PositionOutOfRange
from jbm_kafka.ports.kafka import RecordTooLarge as RecordTooLarge
from jbm_kafka.ports.kafka import Sender as Sender
from jbm_kafka.ports.kafka import SendReport as SendReport
from jbm_kafka.ports.kafka import TopicDescription as TopicDescription
from jbm_kafka.ports.kafka import TransactionAborted as TransactionAborted
from jbm_kafka.ports.kafka import TransactionalProducer as TransactionalProducer
from jbm_kafka.ports.kafka import UnknownTopic as UnknownTopic
from jbm_kafka.ports.kafka import Unreachable as Unreachable
from jbm_kafka.ports.storage import HeldStore as HeldStore
from jbm_kafka.ports.storage import Journal as Journal
