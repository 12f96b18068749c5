"""What Kafka's client raised, as an error for the caller of the API."""

from collections.abc import Iterator
from contextlib import contextmanager

from jbm_kafka.core.jms_errors import ChannelLost, JMSError, JMSSecurityError
from jbm_kafka.ports.kafka import AccessRefused, KafkaClientError


def as_jms_error(error: KafkaClientError, about: str, **values: object) -> JMSError:
    """JMSSecurityError when Kafka refused us, else JMSError; `about` says what was being done, or to what."""
    kind = JMSSecurityError if isinstance(error, AccessRefused) else JMSError
    return kind(f"{about}: {error}", **values)


@contextmanager
def raised_as_jms_errors(about: str) -> Iterator[None]:
    """A block in which what Kafka's client raises is an error for the caller."""
    try:
        yield
    except KafkaClientError as error:
        raise as_jms_error(error, about) from None
    except ChannelLost as error:
        raise JMSError(f"{about}: {error}") from None
