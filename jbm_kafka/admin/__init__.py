"""Looking after queues and topics: make, delete, list, count, browse, send again. Who only looks joins no group.

    from jbm_kafka.admin import Admin

    with Admin("localhost:9092") as admin:
        print(admin.destinations())
        print(admin.counts("orders"), admin.explain("orders"))

`Admin` has all calls; help(Admin) lists them by purpose. The other names are of what they return. The commands
`jbm-kafka …` do the same; the pages are docs/administration.md, dead-letters.md and operating.md.
"""

import sys
from typing import TYPE_CHECKING

from jbm_kafka.admin.admin import Admin
from jbm_kafka.admin.chosen_messages import ChosenMessage
from jbm_kafka.admin.counts import PartitionCounts, QueueCounts
from jbm_kafka.admin.deletion import DeletionReport
from jbm_kafka.admin.explanation import (
    Asks,
    ExplainedMessage,
    ExplainedPartition,
    ExplainedReceiver,
    Explanation,
    Holder,
    Reason,
    Taken,
)
from jbm_kafka.admin.letters import DeadLetter, KeptLetter, LetterFilter, RetryReport
from jbm_kafka.admin.message_verbs import KeptMessage, MessagesReport
from jbm_kafka.admin.partition_admission import PathsEnded
from jbm_kafka.admin.queue_look import QueueLook, Wait
from jbm_kafka.admin.subscription_counts import SubscriptionCounts
from jbm_kafka.admin.units_on_hold import HeldMessage, ReleaseReport
from jbm_kafka.codec.pause_record import Halt, Pause
from jbm_kafka.core.blocking_rule import Rule

__all__ = [
    "Admin",
    "Asks",
    "ChosenMessage",
    "DeadLetter",
    "DeletionReport",
    "ExplainedMessage",
    "ExplainedPartition",
    "ExplainedReceiver",
    "Explanation",
    "Halt",
    "HeldMessage",
    "Holder",
    "KeptLetter",
    "KeptMessage",
    "LetterFilter",
    "MessagesReport",
    "PartitionCounts",
    "PathsEnded",
    "Pause",
    "QueueCounts",
    "QueueLook",
    "Reason",
    "ReleaseReport",
    "RetryReport",
    "Rule",
    "SubscriptionCounts",
    "Taken",
    "Wait",
]


_CALLED = ("AdminClient", "KafkaAdminClient")
"""What Kafka's clients call theirs."""

if not TYPE_CHECKING:  # a type checker would take it for "any name will do"

    def __getattr__(name: str) -> object:
        """Refuses names that there are not, and tells the likely one."""
        from jbm_kafka.core.likely_name import with_likely_name
        from jbm_kafka.core.missing_name import missing_name

        if name in _CALLED:
            told = "; 'Admin' is meant, probably: it does more than that of a Kafka client"
        else:
            told = "" if name.startswith("_") else with_likely_name("", name, __all__)
        raise missing_name("jbm_kafka.admin", name, told, sys._getframe(1))


def __dir__() -> list[str]:
    """The public names, and not the modules that they are in."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
