"""What is told to who sets an attribute of a value that does not change."""

import pickle
import pydoc
from copy import copy
from dataclasses import FrozenInstanceError, dataclass

import pytest

from jbm_kafka import AddressSettings, Queue, Topic
from jbm_kafka.core.frozen import told_result


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


@told_result
@dataclass(frozen=True, slots=True)
class Found:
    """As a call's result."""

    name: str

    @property
    def held(self) -> int:
        """Messages not settled."""
        return len(self.name)

    @property
    def broken(self) -> int:
        """Fails by itself."""
        return getattr(self.name, "nosuch")  # type: ignore[no-any-return]  # noqa: B009 - not to be known


def test_a_result_tells_the_likely_attribute_to_who_reads_or_sets_another() -> None:
    found = Found("abc")
    with pytest.raises(AttributeError, match=r"^a Found has no attribute 'size'; 'held' is meant, probably$"):
        found.size  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(FrozenInstanceError, match=r"^a Found has no attribute 'size', and .*; 'held' is meant, probab"):
        found.size = 1  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError, match=r"^name of a Found cannot be changed: it tells what was found$"):
        del found.name


def test_an_error_of_a_results_own_property_stays_what_it_was() -> None:
    with pytest.raises(AttributeError, match="'str' object has no attribute 'nosuch'"):
        Found("abc").broken  # noqa: B018


def test_a_result_is_copied_and_pickled_as_before() -> None:
    assert copy(Found("abc")) == pickle.loads(pickle.dumps(Found("abc"))) == Found("abc")


def test_help_of_a_result_showed_comments_of_python_itself() -> None:
    told = pydoc.plain(pydoc.render_doc(Found))
    assert "_dataclass_getstate" not in told
    assert "The fields, for pickling and copies." in told
