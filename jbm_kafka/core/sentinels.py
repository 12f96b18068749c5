"""Values that say "nothing was said" or "no name, on purpose". Each is a member of an enum, so `is` finds it."""

from enum import Enum
from typing import Final, Literal


class Unset(Enum):
    """The type of UNSET, the default of what need not be given and for which None means something."""

    UNSET = "UNSET"
    """Nothing was given: the wider setting holds, or else the default in the docstring of the call."""

    def __repr__(self) -> str:
        return "<UNSET: not given>"

    __str__ = __repr__


class UnitMarker(Enum):
    """A marker that may stand where a unit-of-order name could."""

    NO_UNIT = "NO_UNIT"
    """No unit, whatever the defaults say (UNIT-10)."""
    SYSTEM_GENERATED = "SYSTEM_GENERATED"
    """A name of its own for every session, made by us (UNIT-10)."""

    def __repr__(self) -> str:
        return self.value

    __str__ = __repr__  # in a log or an f-string, too, it reads as it is written


UNSET: Final[Literal[Unset.UNSET]] = Unset.UNSET
NO_UNIT: Final[Literal[UnitMarker.NO_UNIT]] = UnitMarker.NO_UNIT
SYSTEM_GENERATED: Final[Literal[UnitMarker.SYSTEM_GENERATED]] = UnitMarker.SYSTEM_GENERATED
