"""Whoever browses hears what went wrong as a JMSError, also in the midst of it."""

import pytest

from jbm_kafka.core.jms_errors import CorruptRecordError, IllegalStateError, JMSError, JMSSecurityError
from jbm_kafka.ports import AccessRefused, Unreachable
from jbm_kafka.ports.client_errors import raised_as_jms_errors


@pytest.mark.parametrize(
    ("inside", "outside", "said"),
    [
        (Unreachable("no answer from Kafka"), JMSError, "browse queue:a: no answer from Kafka"),
        (AccessRefused("READ is not allowed"), JMSSecurityError, "browse queue:a: READ is not allowed"),
        (CorruptRecordError("it is no head", topic="t", partition=1, offset=5), JMSError, "browse queue:a: t[1] at "),
        (IllegalStateError("the browser is closed"), IllegalStateError, "the browser is closed"),
    ],
)
def test_what_fails_inside_is_told_to_callers_as_theirs(inside: Exception, outside: type[JMSError], said: str) -> None:
    with pytest.raises(JMSError) as told, raised_as_jms_errors("browse queue:a"):
        raise inside
    assert type(told.value) is outside
    assert str(told.value).startswith(said)
