"""librdkafka's errors as the errors of our ports: one line each, with what it was about."""

from confluent_kafka import KafkaError, KafkaException

from jbm_kafka.ports import (
    AccessRefused,
    GroupFenced,
    KafkaClientError,
    NobodyAnswers,
    RecordTooLarge,
    UnknownTopic,
    Unreachable,
)

FENCED = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)
"""The group no longer knows this member or generation."""

OUTLIVED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
"""Another producer has taken the transactional id, or the coordinator has ended a transaction that took too long."""

UNKNOWN_TOPIC = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)

TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE, KafkaError.RECORD_LIST_TOO_LARGE})

UNREACHABLE = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError._PARTIAL,  # a list of brokers without any
    }
)

SILENCE = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE})
"""Of these, what says that nobody was there."""

REFUSED = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""The credentials, or what they may do."""

NOT_ALLOWED = REFUSED - {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}
"""The broker knows the user, and its access rules (ACLs) have nothing that allows this."""

READ_REFUSED = REFUSED - {KafkaError.GROUP_AUTHORIZATION_FAILED}
"""To a reader by position: it has no group, but librdkafka demands a name of one, and looks for its coordinator."""

OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
"""Of a fetch, with `auto.offset.reset=error`."""

DAMAGED = frozenset(
    {
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
        KafkaError._NOT_IMPLEMENTED,
        KafkaError.INVALID_MSG,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
"""Told in place of records, behind which librdkafka reads on as if there had been none."""


def cause(error: KafkaException) -> KafkaError:
    """The error value inside what confluent-kafka raised."""
    value = error.args[0]
    assert isinstance(value, KafkaError), value
    return value


def one_line(error: KafkaError) -> str:
    """Its text with its name, on one line."""
    return f"{' '.join(error.str().split())} ({error.name().lstrip('_')})"


def trouble(error: KafkaError, about: str, bootstrap: str, *, group: str | None = None) -> KafkaClientError:
    """The port's error for `error`; `about` says what was being done, with topic or group."""
    code = error.code()
    text = f"{about}: {one_line(error)}"
    if code in FENCED and group is not None:
        return GroupFenced(text, group=group)
    if code in UNKNOWN_TOPIC:
        return UnknownTopic(text)
    if code in TOO_LARGE:
        return RecordTooLarge(text)
    if code in UNREACHABLE:
        text = f"{about}: no answer from Kafka at {bootstrap}: {one_line(error)}"
        return NobodyAnswers(text, bootstrap=bootstrap) if code in SILENCE else Unreachable(text)
    if code in NOT_ALLOWED:
        return AccessRefused(
            f"{text}; no access rule of Kafka's allows it: jbm-kafka docs security lists those that are needed"
        )
    if code in REFUSED:
        return AccessRefused(text)
    return KafkaClientError(text)
