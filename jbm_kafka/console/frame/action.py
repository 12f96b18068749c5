"""An operator's actions in the console: one shape for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel

if TYPE_CHECKING:
    from jbm_kafka.admin import Admin

Wanted = TypeVar("Wanted", bound=BaseModel)


class ActionPreview(BaseModel):
    """The preview of an action now, for whoever has to decide."""

    words: Sequence[str]
    """Sentences; nothing is done yet."""
    warnings: Sequence[str] = ()
    """Remarks that he should read before."""
    is_possible: bool = True
    """False: there is nothing to do, and `words` say why."""


@dataclass(frozen=True, slots=True)
class ActionHands:
    """The tools that an action works with."""

    admin: Admin
    by: str
    """Who does it, for what records a name."""
    tell: Callable[[str], object]
    """Takes a line that tells how far it is."""
    may_operate: Callable[[str], bool] = lambda name: True
    """Tells whether he may operate the destination of this name."""
    is_stopped: Callable[[], bool] = lambda: False
    """Tells whether somebody has asked it to stop."""


@dataclass(frozen=True, slots=True)
class Action(Generic[Wanted]):
    """One of `Admin`'s calls, with a form. `wanted` is the form's model: its fields have titles for people.

    `preview` changes nothing. `run` does it, on a thread of its own, and returns what it did, in words; it may raise a
    JMSError. Both get the model as the operator has filled it in.
    """

    name: str
    """In its address: `/actions/pause`."""
    title: str
    """On its button: a verb."""
    wanted: type[Wanted]
    preview: Callable[[Admin, Wanted], ActionPreview]
    run: Callable[[ActionHands, Wanted], str]
    destroys: bool = False
    """The operator must type `named(wanted)`, as what it does cannot be taken back."""
    about: Callable[[Wanted], str] = lambda wanted: str(getattr(wanted, "name", ""))
    """The destination whose `operate` right it needs; empty: that of all of them."""
    more_about: Callable[[Wanted], Sequence[str]] = lambda wanted: ()
    """Other destinations whose `operate` right it needs too, such as the one that messages are moved to."""
    can_stop: bool = False
    """`run` goes by `ActionHands.is_stopped`: what is done until then stays done."""
    sends_to: Callable[[Admin, Wanted], Sequence[str]] | None = None
    """Destinations that only a look at the messages tells, whose `operate` right it needs as well; None: it sends
    nowhere. `run` must look again by `ActionHands.may_operate`, for others may be there then. It may raise a JMSError:
    `preview` does then."""
    goes_back: Callable[[Wanted], str] = lambda wanted: "/"
    """The page that shows what became of it."""

    def named(self, wanted: Wanted) -> str:
        """Return what is typed where it destroys."""
        return self.about(wanted) or self.name


AnyAction = Action[Any]
