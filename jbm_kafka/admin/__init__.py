"""Looking after queues and topics: make, delete, list, count, browse, send again. Looking joins no group.

    from jbm_kafka.admin import Admin

    with Admin("localhost:9092") as admin:
        print(admin.destinations())
        print(admin.counts("orders"), admin.explain("orders"))

`Admin` has all calls; help(Admin) lists them by purpose. The other names are of what they return. The commands
`jbm-kafka …` do the same; the pages are docs/administration.md, dead-letters.md and operating.md.
"""

from jbm_kafka.admin.admin import Admin
from jbm_kafka.admin.bodies.bodies_admin import BodiesRemoved, StoredLargeBody
from jbm_kafka.admin.cluster.subscription_counts import SubscriptionCounts
from jbm_kafka.admin.counts import PartitionCounts, QueueCounts
from jbm_kafka.admin.dead_letters.edited_letter import EditedLetter
from jbm_kafka.admin.dead_letters.letters import DeadLetter, KeptLetter, LetterFilter, RetryReport
from jbm_kafka.admin.deletion import DeletionReport
from jbm_kafka.admin.doctor.finding import Ailment, Checkup, Finding
from jbm_kafka.admin.explain.explanation import (
    Asks,
    ExplainedMessage,
    ExplainedPartition,
    ExplainedReceiver,
    Explanation,
    Holder,
    Reason,
    Taken,
)
from jbm_kafka.admin.life.message_life import LifeHop, MessageLife
from jbm_kafka.admin.log_keepers import LogKeeper
from jbm_kafka.admin.messages.operations import KeptMessage, MessagesReport
from jbm_kafka.admin.messages.selection import ChosenMessage
from jbm_kafka.admin.messages.units_on_hold import HeldMessage, ReleaseReport
from jbm_kafka.admin.moving.adopting import Adoption
from jbm_kafka.admin.moving.exporting import ExportReport
from jbm_kafka.admin.moving.importing import ImportReport
from jbm_kafka.admin.pages.message_row import MessagePage, MessageRow, StoredMessage
from jbm_kafka.admin.partition_admission import PathsEnded
from jbm_kafka.admin.prepared_admin import PreparedTransaction
from jbm_kafka.admin.queue_look import QueueLook, Wait
from jbm_kafka.admin.schedule_admin import ListedSchedule
from jbm_kafka.admin.truncation_admin import KeptPartition, Truncation
from jbm_kafka.codec.pause_record import Halt, Pause
from jbm_kafka.codec.reader_record import RegisteredReader
from jbm_kafka.core.channel.blocking_rule import Rule
from jbm_kafka.core.channel.message_past import Past, PastStep, StepKind

__all__ = [
    "Admin",
    "Adoption",
    "Ailment",
    "Asks",
    "BodiesRemoved",
    "Checkup",
    "ChosenMessage",
    "DeadLetter",
    "DeletionReport",
    "EditedLetter",
    "ExplainedMessage",
    "ExplainedPartition",
    "ExplainedReceiver",
    "Explanation",
    "ExportReport",
    "Finding",
    "Halt",
    "HeldMessage",
    "Holder",
    "ImportReport",
    "KeptLetter",
    "KeptMessage",
    "KeptPartition",
    "LetterFilter",
    "ListedSchedule",
    "LifeHop",
    "LogKeeper",
    "MessageLife",
    "MessagePage",
    "MessageRow",
    "MessagesReport",
    "PartitionCounts",
    "Past",
    "PastStep",
    "PathsEnded",
    "Pause",
    "PreparedTransaction",
    "QueueCounts",
    "QueueLook",
    "Reason",
    "RegisteredReader",
    "ReleaseReport",
    "RetryReport",
    "Rule",
    "StoredLargeBody",
    "StepKind",
    "StoredMessage",
    "SubscriptionCounts",
    "Taken",
    "Truncation",
    "Wait",
]
