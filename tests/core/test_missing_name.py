"""Names that a module does not have."""

import sys

import pytest

from jbm_kafka import errors
from jbm_kafka.core.missing_name import missing_name


def test_who_imports_a_name_from_the_wrong_module_is_told_where_it_is() -> None:
    """Python's own error knows no more than the name."""
    with pytest.raises(ImportError, match=r"cannot import name 'JMSException' from .*JMSError"):
        from jbm_kafka.errors import JMSException  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(AttributeError, match=r"'JMSException'.*JMSError"):
        _ = errors.JMSException  # type: ignore[attr-defined]
    assert not hasattr(errors, "JMSException")


def test_a_name_that_nothing_is_known_of_is_an_attribute_error() -> None:
    error = missing_name("shop", "x", "", sys._getframe())
    assert isinstance(error, AttributeError)
    assert str(error) == "module 'shop' has no attribute 'x'"
