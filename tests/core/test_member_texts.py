"""`help()` of a class tells of its fields and members what stands behind them in the source."""

import pydoc
from dataclasses import dataclass
from enum import Enum

from jbm_kafka.core.member_texts import with_member_texts


@with_member_texts
@dataclass(frozen=True)
class Parcel:
    """What is sent."""

    weight: int
    """In grams (UNIT-1, LOG-2)."""
    label: str = ""
    colour: str = "red"
    """Of the paper."""

    @property
    def grams(self) -> int:
        """What it weighs (UNIT-1).

        With the paper.
        """
        return self.weight

    @property
    def untold(self) -> int:
        return 0


@with_member_texts
class Kind(Enum):
    """How it goes."""

    FAST = "fast"
    """By air."""
    SLOW = "slow"


def test_fields_are_told_without_the_ids_of_promises() -> None:
    assert Parcel.__doc__ == (
        "What is sent.\n\nAttributes:\n    grams: What it weighs.\n    weight: In grams.\n    colour: Of the paper."
    )


def test_properties_are_told_first_by_their_first_paragraph() -> None:
    assert (Parcel(1).grams, Parcel(1).untold) == (1, 0)
    assert "untold" not in (Parcel.__doc__ or "")


def test_a_member_has_its_own_text_and_one_without_has_that_of_all() -> None:
    assert Kind.FAST.__doc__ == "By air."
    assert Kind.__doc__ == Kind.SLOW.__doc__ == "How it goes.\n\nMembers:\n    FAST: By air."


def test_help_of_an_enum_begins_with_what_it_is() -> None:
    """`help(Rule)` showed members and no word of what they are for: pydoc takes no text that is not a str."""
    text = pydoc.plain(pydoc.render_doc(Kind))
    assert text.index("How it goes.") < text.index("Method resolution order")
    assert "By air." in text


def test_where_the_source_is_not_there_the_class_has_its_own_text() -> None:
    made: type = with_member_texts(type("Made", (), {"__doc__": "By hand."}))
    assert made.__doc__ == "By hand."
