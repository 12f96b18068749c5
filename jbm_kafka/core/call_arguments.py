"""Calls with arguments that a function does not have: told as every other wrong argument is.

Python refuses them before the function runs, with a TypeError that knows neither what was meant nor what there is.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Never, TypeVar, cast

from jbm_kafka.core.given_elsewhere import address_in_one, by_its_look, given_elsewhere
from jbm_kafka.core.jms_errors import InvalidTypeError
from jbm_kafka.core.likely_name import address_setting, with_likely_name
from jbm_kafka.core.wrong_values import shown

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_DESTINATIONS = {"Destination": "Queue", "Queue": "Queue", "Topic": "Topic"}
"""Types of arguments for which people give a name, with what is made of the name."""
_OF_FACTORY = ("client_id", "namespace", "prefetch", "kafka", "state_dir", "auto_create")
"""What people give to what a factory makes, or set there."""
_WITHOUT: Mapping[str, str] = {
    "create_producer": "; a context's producer has no destination, each send names it first: send(queue, message)",
    "Message": "; what has a body is a TextMessage, BytesMessage, MapMessage, StreamMessage or ObjectMessage",
}
"""Behind what takes no arguments, where people give one to it."""
_LISTED_MAX = 8
"""Names behind a guess; more would bury it."""
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def explained(cls: type[C]) -> type[C]:
    """The class, whose public functions and whose `__init__` tell wrong arguments as InvalidTypeError.

    It costs a fifth of a microsecond a call. What is called for each message has `*more, **unknown` instead, which
    hardly cost anything, and says `refuse_others`.
    """
    for name, member in list(vars(cls).items()):
        if name != "__init__" and name.startswith("_"):
            continue
        if isinstance(member, classmethod):
            setattr(cls, name, classmethod(_translating(member.__func__, name)))
        elif (inspect.isfunction(member) or inspect.ismethoddescriptor(member)) and not _takes_all(member):
            setattr(cls, name, _translating(member, name))
    return cls


def explained_function(function: F) -> F:
    """The same for a function of a module."""
    return cast(F, _translating(function, function.__name__, of_object=0))


def refuse_others(function: Callable[..., object], *more: object, **unknown: object) -> Never:
    """Raises InvalidTypeError for arguments that the function, a method, takes in only to refuse them."""
    parameters = _parameters(function)
    fault = _fault(function.__name__, parameters, [None] * len(parameters) + list(more) if more else [], unknown)
    raise fault or InvalidTypeError(f"{function.__name__}() has other arguments than it knows")


def check_maker(made: object, given: object, kind: type) -> None:
    """Return when what an object is made with is of this kind, which only its maker has.

    Raises:
        InvalidTypeError: it is another: somebody makes one by hand, and is told what makes it.
    """
    if not isinstance(given, kind):
        of = type(made)
        raise InvalidTypeError(f"{of.__name__}() was called with {shown(given)}{_made_by(of)}", value=given)


def _takes_all(member: Any) -> bool:
    try:
        parameters = inspect.signature(member).parameters.values()
    except (TypeError, ValueError):
        return True  # nothing to compare with
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)


def _translating(function: Callable[..., Any], name: str, of_object: int = 1) -> Callable[..., Any]:
    """What stands in for the function; `name` is what was called, `of_object` how many arguments come by themselves."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TypeError as error:
            called = type(arguments[0]).__name__ if name == "__init__" else name
            made_by = _made_by(type(arguments[0])) if name == "__init__" else ""
            parameters = _parameters(function, of_object)
            count = len(parameters) if _takes_any_number(function) else len(arguments)
            given = arguments[of_object : of_object + count]
            fault = _fault(called, parameters, given, named, made_by)
            if fault is None or isinstance(error, InvalidTypeError):
                raise
        raise fault

    return call


def _takes_any_number(function: Callable[..., Any]) -> bool:
    kinds = (each.kind for each in inspect.signature(function).parameters.values())
    return inspect.Parameter.VAR_POSITIONAL in kinds


def _made_by(cls: type) -> str:
    """Behind what is said to who makes one himself of what another object makes: its class's text tells which."""
    found = re.search(r"[Mm]ade by `([\w.]+)", cls.__doc__ or "")
    return "" if found is None else f"; it is made by {found[1]}()"


def _parameters(function: Callable[..., Any], of_object: int = 1) -> list[inspect.Parameter]:
    """What it can be called with; not what comes by itself, nor what only refuses others."""
    parameters = list(inspect.signature(function).parameters.values())[of_object:]
    return [each for each in parameters if each.kind in (*_BY_POSITION, *_BY_NAME)]


def _fault(
    name: str,
    parameters: Sequence[inspect.Parameter],
    given: Sequence[object],
    named: Mapping[str, object],
    made_by: str = "",
) -> InvalidTypeError | None:
    """Why the function cannot be called so; None when it can, and the TypeError is another's."""
    by_name = [each.name for each in parameters if each.kind in _BY_NAME]
    by_position = [each.name for each in parameters if each.kind in _BY_POSITION]
    for unknown, value in named.items():
        if unknown not in by_name:
            return _of_unknown(name, by_name, unknown, value)
    if len(given) > len(by_position):
        if (swapped := _swapped(name, parameters, given)) is not None:
            return swapped
        if (address := address_in_one(given, by_name)) is not None:
            text = f"{name}() takes host and port in one: write {shown(address)}"
            return InvalidTypeError(text, setting=by_position[0], value=given[1])
        others = [each for each in by_name if each not in by_position]
        example = by_its_look(given[len(by_position)], others) if others else ""
        hint = f"; give the others by name, as in {example}=…" if others else ""
        took = f"{len(by_position)} arguments by position ({', '.join(by_position)})" if by_position else "no argument"
        took = took.replace("1 arguments", "1 argument")
        if by_position or not others:
            hint = hint if by_position else _WITHOUT.get(name, "")
            text = f"{name}() takes {took}, {len(given)} were given{hint}"
        else:
            text = f"{name}() takes its arguments by name, as in {example}=…; {_list_of(others, name)}"
        return InvalidTypeError(text.replace(", 1 were", ", 1 was"), setting=name, value=given[len(by_position)])
    for twice in by_position[: len(given)]:
        if twice in named:
            return InvalidTypeError(f"{name}() has {twice!r} twice, by position and by name", setting=twice)
    empty = inspect.Parameter.empty
    needed = [each.name for each in parameters if each.default is empty and each.name not in named]
    missing = [each for each in needed if each not in by_position[: len(given)]]
    if missing:
        what = " and ".join(repr(each) for each in missing)
        is_other = bool(given) and not _fits(given[0], parameters[0])
        kind = _DESTINATIONS.get(str(parameters[0].annotation))
        if is_other and kind is not None and isinstance(given[0], str) and not set(missing) & set(by_position):
            its = f"{by_position[0]} is {shown(given[0])}: it is a {kind}, not its name; use {kind}({shown(given[0])})"
            return InvalidTypeError(f"{its}. And {name}() needs {what}", setting=by_position[0])
        took = f": {shown(given[0])} was taken as {by_position[0]!r}, which comes first" if is_other else ""
        return InvalidTypeError(f"{name}() needs {what}{took}{made_by}", setting=missing[0])
    return None


def _of_unknown(name: str, by_name: Sequence[str], unknown: str, value: object) -> InvalidTypeError:
    """What is said of an argument that there is not: where it belongs, or what it is called here."""
    text = f"{name}() has no argument {shown(unknown)}"
    if "address_settings" in by_name and (setting := address_setting(unknown)) is not None:
        example = f"address_settings={{'orders': AddressSettings({setting}=…)}}"
        its = f"{text}: it is a setting of destinations, given as {example}"
        return InvalidTypeError(its, setting=unknown, value=value)
    if name == "set_address_settings" and (setting := address_setting(unknown)) is not None:
        its = f"{text}: it is a part of the settings, {name}('orders', AddressSettings({setting}=…))"
        return InvalidTypeError(its, setting=unknown, value=value)
    if unknown in _OF_FACTORY and name in ("create_connection", "create_context"):
        its = f"{text}: it is given to the factory, ConnectionFactory(…, {unknown}=…)"
        return InvalidTypeError(its, setting=unknown, value=value)
    if (elsewhere := given_elsewhere(name, unknown, value, by_name)) is not None:
        return InvalidTypeError(f"{text}: {elsewhere}", setting=unknown)  # without the value, which may be a secret
    guessed = with_likely_name(text, unknown, by_name)
    is_told = guessed != text and len(by_name) > _LISTED_MAX
    its = guessed if is_told else f"{guessed}; {_list_of(by_name, name)}"
    return InvalidTypeError(its, setting=unknown, value=value)


def _swapped(name: str, parameters: Sequence[inspect.Parameter], given: Sequence[object]) -> InvalidTypeError | None:
    """What to write where two were given by position, and the first of them has a name of its own."""
    if len(given) != 2 or not parameters or _fits(given[0], parameters[0]) or not _fits(given[1], parameters[0]):
        return None
    for meant in parameters[1:]:
        if meant.kind is inspect.Parameter.KEYWORD_ONLY and _fits(given[0], meant):
            instead = f"{name}({shown(given[1])}, {meant.name}={shown(given[0])})"
            text = f"{name}() takes its {parameters[0].name} first and its {meant.name} by name: {instead}"
            return InvalidTypeError(text, setting=meant.name, value=given[0])
    return None


def _fits(value: object, parameter: inspect.Parameter) -> bool:
    """Whether the parameter's type names a class of the value; False also where it has none, or one as wide as Any."""
    said = re.findall(r"\w+", str(parameter.annotation))
    return any(kind.__name__ in said for kind in type(value).__mro__ if kind is not object)


def _list_of(names: Sequence[str], of: str) -> str:
    return f"it has {', '.join(names)}" if names else f"it takes none{_WITHOUT.get(of, '')}"
