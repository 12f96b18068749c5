"""How a bridge takes messages from one place to another, and what it promises then."""

from __future__ import annotations

from enum import Enum

from jbm_kafka.core.jms_errors import InvalidSettingError


class Guarantee(Enum):
    """What holds of each message, whoever is killed."""

    EXACTLY_ONCE = "exactly-once"
    """It arrives, and once."""
    DUPLICATES_OKAY = "duplicates-okay"
    """It arrives, and after a failure maybe twice."""
    AT_MOST_ONCE = "at-most-once"
    """It arrives once at most, and after a failure maybe not at all."""


class Way(Enum):
    """How a bridge keeps its guarantee."""

    ONE_TRANSACTION = "one transaction"
    """Receive and send are one transaction of the cluster that has both ends (BRIDGE-1)."""
    RECORDED_PROGRESS = "recorded progress"
    """The target cluster records which messages came, in one transaction with them (BRIDGE-2)."""
    CONFIRMED_SENDS = "confirmed sends"
    """A message is acknowledged when the target has confirmed it (BRIDGE-3)."""
    ACKNOWLEDGED_FIRST = "acknowledged first"
    """A message is acknowledged before it is sent (BRIDGE-4)."""


def decide_way(
    wanted: Guarantee | None, *, is_one_cluster: bool, into_kafka: bool, drops_duplicates: bool
) -> tuple[Way, Guarantee]:
    """The way from source to target, and the guarantee that holds then. None is wanted: the strongest that there is.

    Where both ends are in one cluster a weaker guarantee would cost as much, and the strongest holds.

    Args:
        is_one_cluster: one transaction can have the receives and the sends.
        into_kafka: the target is a cluster of Kafka.
        drops_duplicates: the target is told an id with each message, and drops what it has had.

    Raises:
        InvalidSettingError: exactly-once is wanted, and nothing at the target can see to that.
    """
    if is_one_cluster:
        return Way.ONE_TRANSACTION, Guarantee.EXACTLY_ONCE
    if wanted is Guarantee.AT_MOST_ONCE:
        return Way.ACKNOWLEDGED_FIRST, Guarantee.AT_MOST_ONCE
    if into_kafka and wanted is not Guarantee.DUPLICATES_OKAY:
        return Way.RECORDED_PROGRESS, Guarantee.EXACTLY_ONCE
    if wanted is Guarantee.EXACTLY_ONCE and not drops_duplicates:
        raise InvalidSettingError(
            "guarantee is 'exactly-once': an AMQP server has no transaction with the source. Name the property by "
            "which it drops duplicates (duplicate_property, of Artemis '_AMQ_DUPL_ID'), or write 'duplicates-okay'",
            setting="guarantee",
            value="exactly-once",
        )
    strongest = Guarantee.EXACTLY_ONCE if drops_duplicates and not into_kafka else Guarantee.DUPLICATES_OKAY
    return Way.CONFIRMED_SENDS, Guarantee.DUPLICATES_OKAY if wanted is Guarantee.DUPLICATES_OKAY else strongest
