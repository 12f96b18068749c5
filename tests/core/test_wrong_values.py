"""A wrong value is told on one line, with its name and what it should be."""

import pytest

from jbm_kafka.core.jms_errors import InvalidSettingError, InvalidTypeError
from jbm_kafka.core.wrong_values import (
    SHOWN_MAX,
    checked_int,
    is_int,
    shown,
    shown_name,
    with_article,
    wrong_type,
    wrong_value,
)


class Unwilling:
    def __repr__(self) -> str:
        raise RuntimeError("not ready")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", r"'a\nb'"),
        (Unwilling(), "a Unwilling"),
        ("x" * 1000, "'" + "x" * (SHOWN_MAX - 1) + "… (1000 characters)"),
        (b"x" * 1000, "b'" + "x" * (SHOWN_MAX - 2) + "… (1000 bytes)"),
        ([7] * 1000, str([7] * 1000)[:SHOWN_MAX] + "… (1000 of them)"),
        (10**100, "1" + "0" * (SHOWN_MAX - 1) + "…"),
    ],
)
def test_any_value_is_shown_on_one_short_line(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_name_is_shown_without_quotes_and_not_too_long() -> None:
    assert shown_name("a" * 1000) == "a" * SHOWN_MAX + "… (1000 characters)"
    assert (shown_name("orders"), shown_name(5)) == ("orders", "5")


def test_a_wrong_value_is_a_value_error_and_a_wrong_type_a_type_error_too() -> None:
    value, kind = wrong_value("a", 1, "it is 2"), wrong_type("a", "1", "it is an int")
    assert (str(value), str(kind)) == ("a is 1: it is 2", "a is '1': it is an int")
    assert isinstance(value, ValueError)
    assert not isinstance(value, TypeError)
    assert isinstance(kind, ValueError)
    assert isinstance(kind, TypeError)
    assert (kind.setting, kind.value) == ("a", "1")


@pytest.mark.parametrize(("value", "expected"), [(1, True), (True, False), (1.0, False)])
def test_true_is_not_an_int(value: object, expected: bool) -> None:
    assert is_int(value) is expected


@pytest.mark.parametrize(
    ("most", "value", "said"),
    [
        (None, 0, "n is 0: it is an int of bytes of at least 1"),
        (9, 10, "n is 10: it is an int of bytes from 1 to 9"),
        (9, 0, "n is 0: it is an int of bytes from 1 to 9"),
    ],
)
def test_an_int_out_of_reach_is_refused(most: int | None, value: int, said: str) -> None:
    assert checked_int("n", 1, 1, most, "bytes") == 1
    with pytest.raises(InvalidSettingError) as refused:
        checked_int("n", value, 1, most, "bytes")
    assert str(refused.value) == said
    assert not isinstance(refused.value, InvalidTypeError)


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_what_is_not_an_int_is_of_a_wrong_type(value: object) -> None:
    with pytest.raises(InvalidTypeError, match=f"n is {value!r}: it is an int from 1 to 9"):
        checked_int("n", value, 1, 9, "")


@pytest.mark.parametrize(
    ("kind", "said"), [(str, "a str"), (int, "an int"), (bytes, "bytes"), (ValueError, "a ValueError")]
)
def test_a_class_has_the_article_that_goes_with_it(kind: type, said: str) -> None:
    """It said "not a int" and "not a bytes"."""
    assert with_article(kind) == said
