"""Errors carry the values they tell."""

import pickle

import pytest

import jbm_kafka.errors
from jbm_kafka.core.jms_errors import ChannelLost, CorruptRecordError, ErrorValue, may_pass
from jbm_kafka.errors import (
    InvalidClientIDError,
    InvalidSelectorError,
    InvalidSettingError,
    JMSError,
    JMSSecurityError,
    UnknownMessageError,
)


def test_every_public_error_is_a_jms_error() -> None:
    classes = [getattr(jbm_kafka.errors, name) for name in jbm_kafka.errors.__all__]
    assert len(classes) == 26
    assert all(issubclass(each, JMSError) for each in classes)
    assert not issubclass(ChannelLost, JMSError)


def test_the_values_of_an_error_are_its_attributes() -> None:
    error = UnknownMessageError("queue 'a' does not hold ID:7", destination="a", message_id="ID:7")
    assert str(error) == "queue 'a' does not hold ID:7"
    assert (error.destination, error.message_id) == ("a", "ID:7")
    assert (error.partition, InvalidSettingError("priority is 10", setting="priority").names) == (None, None)
    with pytest.raises(AttributeError, match="has no attribute 'offset'"):
        _ = error.offset  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [InvalidSelectorError, InvalidClientIDError])
def test_a_wrong_value_was_no_value_error_where_it_has_an_error_of_its_own(kind: type[JMSError]) -> None:
    assert issubclass(kind, ValueError)


PUBLIC = [getattr(jbm_kafka.errors, name) for name in jbm_kafka.errors.__all__]


@pytest.mark.parametrize("kind", PUBLIC, ids=lambda kind: str(kind.__name__))
def test_each_value_that_an_error_lists_is_told_in_a_sentence(kind: type[JMSError]) -> None:
    listed = [name for name, member in vars(kind).items() if isinstance(member, ErrorValue)]
    assert [name for name in listed if not (vars(kind)[name].__doc__ or "").endswith(".")] == []


def test_an_error_survives_a_trip_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(UnknownMessageError("gone", message_id="ID:7")))
    assert str(error) == "gone"
    assert error.message_id == "ID:7"


def test_a_corrupt_record_says_what_and_then_where() -> None:
    error = CorruptRecordError("the value is empty")
    assert str(error) == "the value is empty"
    placed = error.at("orders.jbm-changelog", 3, 17)
    assert str(placed) == "orders.jbm-changelog[3] at offset 17: the value is empty"
    assert (placed.reason, placed.topic, placed.partition, placed.offset) == (
        "the value is empty",
        "orders.jbm-changelog",
        3,
        17,
    )


def test_what_an_error_does_not_tell_is_no_attribute_of_it() -> None:
    error = UnknownMessageError("gone", message_id="ID:7")
    assert error.message_id == "ID:7"
    with pytest.raises(AttributeError, match="has no attribute 'colour'"):
        error.colour  # type: ignore[attr-defined]  # noqa: B018
    assert JMSError("a", colour="red").colour == "red"  # type: ignore[attr-defined]


def test_of_rights_and_of_arguments_trying_again_is_no_help() -> None:
    assert may_pass(JMSError("no answer"))
    assert not may_pass(JMSSecurityError("no right"))
    assert not may_pass(InvalidSettingError("wrong"))
    assert not may_pass(ValueError("an error of ours"))
