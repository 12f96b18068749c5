"""Markers in a handler's annotations that say of an argument more than its type, as in `Annotated[str,
Header("region")]`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

Scope = Literal["message", "thread", "worker"]


@dataclass(frozen=True, slots=True)
class Header:
    """The argument is a header or a property of the message, of that name; None: of the parameter's own.

    `JMSMessageID`, `JMSCorrelationID`, `JMSType`, `JMSPriority` and `JMSTimestamp` are headers; `JMSXDeliveryCount`,
    `JMSXGroupID` and names without `JMS` are properties. What is no property may be a header of the Kafka record.
    """

    name: str | None = None


@dataclass(frozen=True, slots=True)
class Depends:
    """The argument is what the provider gives, as in `Annotated[Database, Depends(open_database)]`.

    A provider is a function, or for an `async def` handler a coroutine function, that returns it; or one with a single
    `yield`, which yields it and cleans up behind that. Its own parameters are those that a handler may have. Its value
    is made once for a message, a handler's thread (of coroutines: their event loop), or the worker, as `scope` says.
    """

    provider: Callable[..., Any]
    scope: Scope = "message"


def is_marked(kind: Any, default: Any) -> bool:
    """A parameter of that type and default is to be given something else than what its caller has."""
    said = (default, kind, *(get_args(kind)[1:] if get_origin(kind) is Annotated else ()))
    return any(each is marker or isinstance(each, marker) for each in said for marker in (Depends, Header))
