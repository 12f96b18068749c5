"""Proton's objects are let go on the thread that they are of, whichever drops the last reference or collects garbage.

Proton is not made for threads: another one that frees an object aborts the process, now and then.
What is done for each message is done without most of Proton's own objects, which cost more than the message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from functools import cached_property
from threading import get_ident
from typing import Any, TypeVar

from cproton import (  # type: ignore[import-untyped]
    pn_decref,
    pn_delivery,
    pn_delivery_link,
    pn_delivery_local,
    pn_delivery_remote,
    pn_delivery_remote_state,
    pn_delivery_settle,
    pn_incref,
    pn_link_advance,
    pn_link_credit,
    pn_link_queued,
    pn_link_send,
    pn_link_session,
)
from proton import Condition, Delivery, ProtonException, Receiver, Sender
from proton._delivery import Disposition
from proton._wrapper import EMPTY_ATTRS, Wrapper

T = TypeVar("T")
EngineLink = Sender | Receiver
"""A link of either direction."""
EngineReceiver = Receiver
"""As Proton has it: the other side sends by it."""
Work = Coroutine[Any, Any, None]
"""What is to be done on the loop."""

_left: dict[int, deque[Any]] = {}
"""Objects that others dropped, by the thread that called `own`."""
_init = Wrapper.__init__


def _owned(self: Any, *arguments: Any, **named: Any) -> None:
    self.__dict__["_thread"] = get_ident()
    _init(self, *arguments, **named)


def _drop(self: Any) -> None:
    thread = self.__dict__.get("_thread")
    left = None if thread == get_ident() else _left.get(thread)
    release = _RELEASES.get(type(self), pn_decref)
    if left is None:
        release(self._impl)
    else:
        left.append((release, self._impl))


# A link or a delivery that is the last to know of its session is freed by the engine with that while it lets go of the
# session, and then looked at once more. So the session is here until the other is gone.


def _release_link(link: Any) -> None:
    session = pn_link_session(link)
    pn_incref(session)
    pn_decref(link)
    pn_decref(session)


def _release_delivery(delivery: Any) -> None:
    link = pn_delivery_link(delivery)
    if link:
        pn_incref(link)
        pn_decref(delivery)
        _release_link(link)
    else:
        pn_decref(delivery)


def own() -> None:
    """From now on this thread's objects are let go by its calls of `let_go`, until `disown`."""
    Wrapper.__init__ = _owned  # type: ignore[method-assign]
    Wrapper.__del__ = _drop  # type: ignore[method-assign]
    _left[get_ident()] = deque()


def let_go() -> int:
    """Let go of what other threads dropped; how many."""
    left = _left[get_ident()]
    count = len(left)
    for _ in range(count):
        release, impl = left.popleft()
        release(impl)
    return count


def disown() -> None:
    """The thread ends."""
    let_go()
    del _left[get_ident()]


class _Told(Disposition):
    """The other side's word about a delivery; None: nothing, or nothing that can be read."""

    @property  # type: ignore[misc]
    def data(self) -> list[Any] | None:
        found = _readable(lambda: Disposition.data.fget(self))  # type: ignore[attr-defined]
        return found if isinstance(found, list) else None

    @property  # type: ignore[misc]
    def annotations(self) -> dict[Any, Any] | None:
        found = _readable(lambda: Disposition.annotations.fget(self))  # type: ignore[attr-defined]
        return found if isinstance(found, dict) else None

    @property  # type: ignore[misc]
    def condition(self) -> Any:
        return _readable(lambda: Disposition.condition.fget(self))  # type: ignore[attr-defined]


def _readable(get: Callable[[], T]) -> T | None:
    try:
        return get()
    except (ValueError, TypeError, ProtonException):
        return None


class EngineDelivery(Delivery):
    """As Proton's, but what is set of it is this object's alone; `remote_state` is a number."""

    def __init__(self, impl: Any) -> None:
        pn_incref(impl)
        self.__dict__.update(_impl=impl, _attrs=EMPTY_ATTRS, _thread=get_ident())

    @cached_property
    def local(self) -> Any:  # type: ignore[override]
        """What is said of it here; Proton says that its data is numbers."""
        return Disposition(pn_delivery_local(self._impl), True)  # type: ignore[no-untyped-call]

    @cached_property
    def remote(self) -> _Told:  # type: ignore[override]
        return _Told(pn_delivery_remote(self._impl), False)  # type: ignore[no-untyped-call]

    @property
    def remote_state(self) -> int:
        return int(pn_delivery_remote_state(self._impl))

    @property
    def link_key(self) -> Any:
        """As `link_key` of its link."""
        return pn_delivery_link(self._impl)


_RELEASES = {
    Sender: _release_link,
    Receiver: _release_link,
    Delivery: _release_delivery,
    EngineDelivery: _release_delivery,
}


def link_key(link: Any) -> Any:
    """Equal for all objects of the same link, as long as the engine has it."""
    return link._impl


def open_session(session: Any) -> None:
    """Open it with the widest window: what may be on its way is said by each link's credit, and read as it comes.

    Where another window runs low Proton renews it in the name of the link of the last message, also of one that was
    ended meanwhile and has no number any more, for which the other side ends the connection. Of one that is full a
    client keeps what it sends, and loses it when it closes.
    """
    session.open()  # Proton's default; `incoming_capacity` would set another


def remote_credit(link: Any) -> int:
    """How many more a link that sends may send, of which some wait in the engine."""
    return int(pn_link_credit(link._impl) + pn_link_queued(link._impl)) % 2**32


def grant(link: Any, missing: int) -> None:
    """Let the other side send so many more, or as many as the engine can count."""
    link.flow(min(missing, 2**31 - 1))


def detach(link: Any, condition: Condition) -> None:
    """End a link for this reason, but nothing that is kept for it: Proton's own `detach` tells no reason."""
    link.condition = condition
    link._update_cond()
    link.detach()


def transfer(link: Any, tag: str, data: bytes, *, is_settled: bool) -> None:
    """Send a message; `is_settled`: nobody is to say what becomes of it."""
    engine = link._impl
    delivery = pn_delivery(engine, tag)
    pn_link_send(engine, data)
    pn_link_advance(engine)
    if is_settled:
        pn_delivery_settle(delivery)
