"""librdkafka's errors as the errors of our ports: one line each, with what it was about."""

from confluent_kafka import KafkaError, KafkaException

from jbm_kafka.kafka.error_codes import Meaning, codes_of
from jbm_kafka.kafka.leaked_references import let_handled_go
from jbm_kafka.ports import (
    AccessRefused,
    GroupFenced,
    KafkaClientError,
    NobodyAnswers,
    RecordTooLarge,
    UnknownTopic,
    Unreachable,
)

FENCED = codes_of(Meaning.FENCED)
OUTLIVED = codes_of(Meaning.OUTLIVED)
UNKNOWN_TOPIC = codes_of(Meaning.UNKNOWN_TOPIC)
TOO_LARGE = codes_of(Meaning.TOO_LARGE)
SILENCE = codes_of(Meaning.SILENCE)
UNREACHABLE = SILENCE | codes_of(Meaning.PASSING)
NOT_ALLOWED = codes_of(Meaning.NOT_ALLOWED)
REFUSED = NOT_ALLOWED | codes_of(Meaning.NOT_KNOWN)
LASTING = REFUSED | TOO_LARGE | codes_of(Meaning.LASTING)
"""To trying again they stay the same, until somebody changes a right, a setting or a limit."""
READ_REFUSED = REFUSED - {KafkaError.GROUP_AUTHORIZATION_FAILED}
"""To a reader by position: it has no group, but librdkafka demands a name of one, and looks for its coordinator."""
OUT_OF_RANGE = codes_of(Meaning.OUT_OF_RANGE)
DAMAGED = codes_of(Meaning.DAMAGED)


def cause(error: KafkaException) -> KafkaError:
    """The error value inside what confluent-kafka raised."""
    let_handled_go(error)
    value = error.args[0]
    assert isinstance(value, KafkaError), value
    return value


def one_line(error: KafkaError) -> str:
    """Its text with its name, on one line."""
    return f"{' '.join(error.str().split())} ({error.name().lstrip('_')})"


def trouble(
    error: KafkaError, about: str, bootstrap: str, *, group: str | None = None, right: str = ""
) -> KafkaClientError:
    """The port's error for `error`; `about` says what was being done, with topic or group.

    `right` is what that takes, as in `Write on topic orders`.
    """
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
            f"{text}; no access rule of Kafka's allows {right or 'it'}: jbm-kafka docs security lists those that are "
            "needed"
        )
    if code in REFUSED:
        return AccessRefused(text)
    return KafkaClientError(text)
