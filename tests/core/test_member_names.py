"""Misspelt members of the enums that applications name."""

from enum import Enum

import pytest

from jbm_kafka import AcknowledgeMode, DeliveryMode, MessageState
from jbm_kafka.core.blocking_rule import Rule
from jbm_kafka.errors import InvalidSettingError

MODES = "it has AUTO, CLIENT, TRANSACTED, INDIVIDUAL, DUPS_OK, PRE, NO"


@pytest.mark.parametrize(
    ("members", "name", "said"),
    [
        (AcknowledgeMode, "auto", f"AcknowledgeMode has no 'auto'; 'AUTO' is meant, probably; {MODES}"),
        (MessageState, "FOO", "MessageState has no 'FOO'; it has NOT_COMMITTED, NEW, DELIVERED"),
        (AcknowledgeMode, "xyz", f"AcknowledgeMode has no 'xyz'; {MODES}"),
        (AcknowledgeMode, "TRANSIENT", f"AcknowledgeMode has no 'TRANSIENT'; 'TRANSACTED' is meant, probably; {MODES}"),
        (
            DeliveryMode,
            "TRANSIENT",
            "DeliveryMode has no 'TRANSIENT'; 'NON_PERSISTENT' is meant, probably; it has NON_PERSISTENT, "
            "PERSISTENT, PERSISTENT_GROUPACK",
        ),
        (
            DeliveryMode,
            "NONPERSISTENT",
            "DeliveryMode has no 'NONPERSISTENT'; 'NON_PERSISTENT' is meant, probably; it has NON_PERSISTENT, "
            "PERSISTENT, PERSISTENT_GROUPACK",
        ),
    ],
)
def test_a_misspelt_member_was_refused_without_a_word_of_those_that_there_are(
    members: type[Enum], name: str, said: str
) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(members, name)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("members", "value", "said"),
    [
        (AcknowledgeMode, "AUTO", "AcknowledgeMode is 'AUTO': use AcknowledgeMode.AUTO"),
        (AcknowledgeMode, 1, f"AcknowledgeMode is 1: use one of {MODES.removeprefix('it has ')}"),
        (MessageState, "NEW", "MessageState is 'NEW': use MessageState.NEW"),
        (Rule, "IN_HAND", "Rule is 'IN_HAND': use Rule.IN_HAND"),
        (DeliveryMode, "persistent", "DeliveryMode is 'persistent': use DeliveryMode.PERSISTENT"),
    ],
)
def test_what_is_no_members_value_was_refused_without_a_remedy(members: type[Enum], value: object, said: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        members(value)
    assert str(caught.value) == said
    assert isinstance(caught.value, ValueError)


def test_members_are_found_as_ever() -> None:
    assert [AcknowledgeMode.AUTO, AcknowledgeMode["AUTO_ACKNOWLEDGE"]] == [AcknowledgeMode("auto")] * 2
    assert not hasattr(AcknowledgeMode, "_nothing")


def test_members_are_found_also_where_python_asks_the_metaclass_for_each() -> None:
    """As some versions before 3.12 do."""
    assert type(DeliveryMode).__getattr__(DeliveryMode, "PERSISTENT") is DeliveryMode.PERSISTENT  # type: ignore[attr-defined]
