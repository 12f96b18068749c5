"""Each error that librdkafka can tell has a meaning, and callers see that."""

from collections import Counter

import pytest
from confluent_kafka import KafkaError

from jbm_kafka.kafka import error_codes
from jbm_kafka.kafka.error_codes import MEANINGS, Meaning
from jbm_kafka.kafka.translated_errors import trouble
from jbm_kafka.ports import (
    AccessRefused,
    GroupFenced,
    KafkaClientError,
    NobodyAnswers,
    RecordTooLarge,
    UnknownTopic,
    Unreachable,
)


def test_every_code_stands_in_the_table_once() -> None:
    named = Counter(name for names in error_codes._NAMES.values() for name in names.split())
    assert [name for name, times in named.items() if times > 1] == []
    known = {name for name in dir(KafkaError) if name.isupper() and isinstance(getattr(KafkaError, name), int)}
    assert known - named.keys() == set()


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (KafkaError._TIMED_OUT, NobodyAnswers),
        (KafkaError._DESTROY_BROKER, Unreachable),
        (KafkaError.NOT_ENOUGH_REPLICAS, Unreachable),
        (KafkaError.KAFKA_STORAGE_ERROR, Unreachable),
        (KafkaError.ILLEGAL_GENERATION, GroupFenced),
        (KafkaError.UNKNOWN_TOPIC_ID, UnknownTopic),
        (KafkaError.MSG_SIZE_TOO_LARGE, RecordTooLarge),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AccessRefused),
        (KafkaError.SASL_AUTHENTICATION_FAILED, AccessRefused),
        (KafkaError.POLICY_VIOLATION, KafkaClientError),
    ],
)
def test_a_broker_that_went_away_is_an_outage_and_not_an_error_of_its_own(
    code: int, raised: type[KafkaClientError]
) -> None:
    """Of CONN-3: where trying again may help callers see Unreachable, and a send ends as SendTimeoutError in time."""
    found = trouble(KafkaError(code), "send to parcels[0]", "localhost:9092", group="workers")
    assert type(found) is raised
    assert str(found).startswith("send to parcels[0]: ")
    assert (MEANINGS[code] in (Meaning.SILENCE, Meaning.PASSING)) is isinstance(found, Unreachable)
