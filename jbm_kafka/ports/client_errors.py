"""Turns what Kafka's client raised into an error for the caller of the API."""

from collections.abc import Iterator
from contextlib import contextmanager

from jbm_kafka.core.jms_errors import ChannelLost, ConnectionFailedError, JMSError, JMSSecurityError
from jbm_kafka.ports.kafka import AccessRefused, KafkaClientError, NobodyAnswers


def as_jms_error(error: KafkaClientError, about: str, **values: object) -> JMSError:
    """The error's class by cause: Kafka refused, nobody answers, or another. `about`: what was being done."""
    if isinstance(error, NobodyAnswers):
        return ConnectionFailedError(f"{about}: {error}", **{"bootstrap": error.bootstrap, **values})
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
