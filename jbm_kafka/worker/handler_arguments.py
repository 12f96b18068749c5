"""The arguments of a handler's parameters, by its signature: read once, when the handler is registered.

A handler that takes the message, or in a transaction the message and the session, is called as it is, at no cost.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Union, get_args, get_origin

from jbm_kafka.core.jms_errors import InvalidTypeError, MessageFormatError
from jbm_kafka.core.wrong_values import wrong_type
from jbm_kafka.jms.base.never_run import called, has_yield, is_async
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.session import Session
from jbm_kafka.worker.argument_values import MISSING, body_reader, header_reader
from jbm_kafka.worker.markers import Depends, Header, Scope

Value = Callable[[Message, Session | None], Any]
"""Gives an argument of one call. Raises MessageFormatError where the message has none that fits."""
_HANDLER, _BATCH, _OF_BATCH = "handler", "batch handler", "provider of a batch handler"
SCOPES: tuple[Scope, ...] = ("message", "thread", "worker")
"""From the shortest life to the longest."""


class Misfits(Exception):
    """Bodies of a batch are not what its handler wants; it was not called."""

    def __init__(self, messages: dict[Message, str]) -> None:
        super().__init__("the bodies of a batch do not fit")
        self.messages = messages
        """Each with its fault."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments that a handler, or a provider, is called with."""

    by_place: tuple[Value, ...]
    by_name: tuple[tuple[str, Value], ...]
    provided: tuple[tuple[str, ArgumentProvider], ...]
    """The providers by the parameter's name."""

    def of(self, message: Message, session: Session | None) -> tuple[list[Any], dict[str, Any]]:
        """Return those that the message has, by place and by name.

        Raises:
            MessageFormatError: it does not fit.
        """
        by_name = {name: value(message, session) for name, value in self.by_name} if self.by_name else {}
        return [value(message, session) for value in self.by_place], by_name


@dataclass(frozen=True, slots=True, eq=False)
class ArgumentProvider:
    """A provider, and what it is called with. Equal ones are one."""

    function: Callable[..., Any]
    scope: Scope
    arguments: Arguments

    @property
    def is_async(self) -> bool:
        """It is awaited, or has its `yield` in an `async def`."""
        return is_async(self.function) or inspect.isasyncgenfunction(called(self.function))

    @property
    def cleans_up(self) -> bool:
        """It has a `yield`."""
        return has_yield(self.function)

    @property
    def key(self) -> tuple[Callable[..., Any], Scope]:
        """One value is made for each."""
        return self.function, self.scope

    def with_its_own(self) -> Iterator[ArgumentProvider]:
        """It, behind those that it needs."""
        for _, each in self.arguments.provided:
            yield from each.with_its_own()
        yield self


def arguments_of(function: Callable[..., Any], *, is_transacted: bool, is_batch: bool = False) -> Arguments | None:
    """Return what the handler wants; None: the message, and in a transaction the session, as it is called without this.

    Of a batch all of it is of several messages, and a value's first argument is their list.

    Raises:
        InvalidTypeError: nobody can know what a parameter is to be given.
    """
    parameters = _parameters(function)
    if not parameters:
        return None
    what = _BATCH if is_batch else _HANDLER
    found = _Reading(what, function, is_transacted=is_transacted).arguments(parameters)
    values = (*found.by_place, *(value for _, value in found.by_name))
    is_by_place = all(each.kind is not each.KEYWORD_ONLY for each in parameters)
    if is_by_place and not found.provided and values in ((), (_message,), (_message, _session)):
        return None
    for provider in (each for _, given in found.provided for each in given.with_its_own()):
        if provider.is_async and not is_async(function):
            rule = f"its provider {_name_of(provider.function)} is async, and it is not; write async def for both"
            raise wrong_type("handler", function, rule)
    return found


def _message(message: Message, session: Session | None) -> Message:
    return message


def _session(message: Message, session: Session | None) -> Session | None:
    return session


class _Reading:
    """The parameters of one function, one after the other. `what` it is, errors say."""

    def __init__(
        self, what: str, function: Callable[..., Any], *, is_transacted: bool, scope: Scope = "message"
    ) -> None:
        self._what = what
        self._function = function
        self._is_transacted = is_transacted
        self._scope: Scope = scope
        self._body: str | None = None
        """The parameter that gets the body."""
        self._provided: list[tuple[str, ArgumentProvider]] = []

    def arguments(self, parameters: Sequence[inspect.Parameter]) -> Arguments:
        """Return what all of them are given."""
        wanted = [(each, value) for number, each in enumerate(parameters) if (value := self._value(each, number))]
        # A parameter behind one that keeps its default, or is provided, has to be named.
        names = {each.name for each, _ in wanted}
        place = next((number for number, each in enumerate(parameters) if each.name not in names), len(parameters))
        first = {each.name for each in parameters[:place] if each.kind is not each.KEYWORD_ONLY}
        return Arguments(
            tuple(value for each, value in wanted if each.name in first),
            tuple((each.name, value) for each, value in wanted if each.name not in first),
            tuple(self._provided),
        )

    def _value(self, parameter: inspect.Parameter, number: int) -> Value | None:
        """Return what gives it; None: it keeps its default, or is provided."""
        kind = self._annotation(parameter, number)
        for marker in (Depends, Header):
            if any(each is marker or isinstance(each, marker) for each in (kind, parameter.default)):
                name = marker.__name__
                raise self._fault(parameter, f"{name} stands beside its type; write Annotated[…, {name}(…)]")
        if get_origin(kind) is Annotated:
            plain, *marks = get_args(kind)
            for mark in marks:
                mark = Header() if mark is Header else mark
                if isinstance(mark, Depends):
                    self._provided.append((parameter.name, self._provider(parameter, mark)))
                    return None
                if isinstance(mark, Header):
                    return self._header(parameter, plain, mark)
            if _is_any(plain, Message) or _is_any(plain, Session):
                kind = plain
        value = self._of_kind(parameter, kind, number)
        if value is not None and self._scope != "message":
            raise self._fault(parameter, f"there is no message for a provider of scope {self._scope!r}")
        return value

    def _provider(self, parameter: inspect.Parameter, mark: Depends) -> ArgumentProvider:
        function, scope = mark.provider, mark.scope
        if scope not in SCOPES:
            raise self._fault(parameter, f"scope is {scope!r}: it is one of {', '.join(SCOPES)}")
        if not callable(function) or parameter.kind is parameter.POSITIONAL_ONLY:
            raise self._fault(parameter, "a provider is a function, and what it gives is given by name")
        if SCOPES.index(scope) < SCOPES.index(self._scope):
            raise self._fault(parameter, f"scope {scope!r} ends before the {self._scope!r} of what needs it")
        what = "provider" if self._what in (_HANDLER, "provider") else _OF_BATCH
        reading = _Reading(what, function, is_transacted=self._is_transacted, scope=scope)
        return ArgumentProvider(function, scope, reading.arguments(_parameters(function)))

    def _of_kind(self, parameter: inspect.Parameter, kind: Any, number: int) -> Value | None:
        is_open = kind in (parameter.empty, Any, object)
        is_first = number == 0 and self._what in (_HANDLER, _BATCH)
        if self._what in (_BATCH, _OF_BATCH) and not is_open and not _is_any(kind, Session):
            return self._of_batch(parameter, kind)
        if _is_any(kind, Message) or (is_open and (is_first or parameter.name == "message")):
            return _message
        if _is_any(kind, Session) or (is_open and self._is_transacted and number == 1):
            if not self._is_transacted:
                raise self._fault(parameter, "a Session is a transaction's: say transacted=True")
            return _session
        if parameter.default is not parameter.empty:
            return None
        if is_open:
            raise self._fault(parameter, "it has no type, so nobody knows what it is: annotate it")
        if self._body is not None:
            raise self._fault(parameter, f"{self._body} has the body already; a property is Annotated[…, Header()]")
        self._body = parameter.name
        return _of_message(self._made(parameter, partial(body_reader, kind)))

    def _of_batch(self, parameter: inspect.Parameter, kind: Any) -> Value | None:
        """The messages of a batch, or all their bodies."""
        each = get_args(kind)[0] if get_origin(kind) in (list, Sequence) else None
        if each is None and parameter.default is not parameter.empty:
            return None
        if self._what == _OF_BATCH or each is None:
            raise self._fault(parameter, "a batch has several messages: it is a list[Message], or a list of bodies")
        if _is_any(each, Message) or each in (Any, object):
            return _message
        return partial(_bodies, self._made(parameter, partial(body_reader, each)))

    def _header(self, parameter: inspect.Parameter, kind: Any, mark: Header) -> Value:
        if self._what in (_BATCH, _OF_BATCH):
            raise self._fault(parameter, "a header is one message's, and a batch has several: take list[Message]")
        if self._scope != "message":
            raise self._fault(parameter, f"there is no message for a provider of scope {self._scope!r}")
        default = MISSING if parameter.default is parameter.empty else parameter.default
        name = mark.name or parameter.name
        return _of_message(self._made(parameter, partial(header_reader, name, kind, default)))

    def _annotation(self, parameter: inspect.Parameter, number: int) -> Any:
        """Its type; a text, as `from __future__ import annotations` makes it, is looked up where the function is."""
        kind = parameter.annotation
        if not isinstance(kind, str):
            return kind
        code = _code_of(self._function)
        names = dict(vars(sys.modules[code.__module__])) if code.__module__ in sys.modules else {}
        names |= getattr(code, "__globals__", {})
        names |= {name: cell.cell_contents for name, cell in _cells(code)}
        try:
            return eval(kind, names)
        except Exception as error:
            last = kind.strip("\"' ").rpartition(".")[2]  # imported for type checkers alone, as always was allowed
            if last in ("Message", "TextMessage", "Session"):
                return Session if last == "Session" else Message
            if number == 0 and parameter.name == "message":
                return Message
            raise self._fault(parameter, f"its type {kind!r} cannot be looked up: {error}") from None

    def _made(self, parameter: inspect.Parameter, make: Callable[[], Callable[[Message], Any]]) -> Any:
        try:
            return make()
        except InvalidTypeError as error:
            raise self._fault(parameter, str(error)) from None

    def _fault(self, parameter: inspect.Parameter, why: str) -> InvalidTypeError:
        return wrong_type(self._what, self._function, f"its parameter {parameter.name}: {why}")


def _bodies(read: Callable[[Message], Any], batch: Any, session: Session | None) -> list[Any]:
    bodies, misfits = [], dict[Message, str]()
    for message in batch:
        try:
            bodies.append(read(message))
        except MessageFormatError as error:
            misfits[message] = str(error)
    if misfits:
        raise Misfits(misfits)
    return bodies


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def _of_message(read: Callable[[Message], Any]) -> Value:
    return lambda message, _: read(message)


def _is_any(kind: Any, base: type) -> bool:
    """It is that class, one below it, or a union of such."""
    if get_origin(kind) in (Union, types.UnionType):
        return all(each is types.NoneType or _is_any(each, base) for each in get_args(kind))
    return isinstance(kind, type) and issubclass(kind, base)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return those of a signature; none where nobody knows it. Behind a decorator that takes anything are the
    function's."""
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # of some built-in functions
        return []
    found = list(signature.parameters.values())
    if found and all(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in found):
        wrapped = getattr(function, "__wrapped__", None)
        return [] if wrapped is None else _parameters(wrapped)
    return [each for each in found if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


def _code_of(function: Any) -> Any:
    """The function whose module has the names of the annotations."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif inspect.isfunction(function):
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is None:
                return function
            function = wrapped
        else:
            call = getattr(type(function), "__call__", None)  # noqa: B004 - what a call of it runs
            if not inspect.isfunction(call):
                return function
            function = call


def _cells(code: Any) -> list[tuple[str, Any]]:
    cells = getattr(code, "__closure__", None) or ()
    names = code.__code__.co_freevars if cells else ()
    return [pair for pair in zip(names, cells, strict=True) if pair[1] != types.CellType()]
