"""What is told to who sets an attribute of a value that does not change."""

from dataclasses import FrozenInstanceError

import pytest

from jbm_kafka import AddressSettings, Queue, Topic


@pytest.mark.parametrize(
    ("value", "name", "said"),
    [
        (Queue("a"), "name", "name of a Queue cannot be changed; make a new one"),
        (Topic("a"), "x", "a Topic has no attribute 'x', and cannot be changed"),
        (
            AddressSettings(),
            "max_attempts",
            "an AddressSettings has no attribute 'max_attempts', and cannot be changed; 'max_delivery_attempts' is "
            "meant, probably",
        ),
    ],
)
def test_a_misspelt_attribute_of_a_frozen_value_was_a_type_error_about_super(
    value: object, name: str, said: str
) -> None:
    with pytest.raises(FrozenInstanceError) as caught:
        setattr(value, name, 5)
    assert str(caught.value) == said
    with pytest.raises(FrozenInstanceError):
        delattr(value, name)
