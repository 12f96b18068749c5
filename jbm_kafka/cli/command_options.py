"""Options that every command spells the same way."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Any, TypeVar

import click

from jbm_kafka.cli.cluster_settings import is_utf8
from jbm_kafka.core.jms_errors import InvalidSelectorError
from jbm_kafka.core.selectors.selector import parse_selector

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
"""As people write it: to Python digits of other scripts are numbers, too, and underscores between them."""
Function = TypeVar("Function", bound=Callable[..., Any])


class Seconds(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A duration from one length to another; `nan` is wrong usage as well."""

    # Not click.FloatRange: its help shows what a machine would write, 0<=x<=1000000000.0.
    name = "seconds"

    def __init__(self, least: float, most: float = inf) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The seconds; wrong usage for what is not a number of them."""
        with suppress(ValueError):
            if str(value).isascii() and self._least <= float(value) <= self._most and float(value) < inf:
                return float(value)
        reach = f"of at least {self._least:g}" if self._most == inf else f"from {self._least:g} to {self._most:,.15g}"
        raise click.BadParameter(f"{value!r} is not a number of seconds {reach}", ctx, param)


class Whole(click.ParamType):  # type: ignore[type-arg]
    """A whole number of a size."""

    name = "number"

    def __init__(self, least: int, most: int | None = None) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; wrong usage for any other text."""
        if _WHOLE.fullmatch(str(value)):
            number = int(value)
            if number >= self._least and (self._most is None or number <= self._most):
                return number
        reach = f"of at least {self._least}" if self._most is None else f"from {self._least} to {self._most}"
        raise click.BadParameter(f"{value!r} is not a whole number {reach}", ctx, param)


class Text(click.ParamType):  # type: ignore[type-arg]
    """A text as Kafka can keep it, in UTF-8; wrong usage for what a shell gave in another encoding."""

    name = "text"

    def __init__(self, empty: str = "") -> None:
        """`empty`: why it is not to be empty; "": it may be."""
        self._empty = empty

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text."""
        if not value and self._empty:
            raise click.BadParameter(self._empty, ctx, param)
        if not is_utf8(str(value)):
            raise click.BadParameter(f"{value!a} is not UTF-8; write it in that encoding", ctx, param)
        return value


UNIT = Text("a unit of order has a name; leave it out for none")
ID = Text("an id is not empty; leave it out for any")


def can_ask() -> bool:
    """Return True if standard input is a terminal, so that a question gets an answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def check_can_ask(*, as_json: bool) -> None:
    """Raises wrong usage where nobody can answer a question."""
    if as_json or not can_ask():
        raise click.UsageError(
            "nobody can be asked here whether it is meant: give --yes, or --dry-run to see what would go"
        )


def not_found(unit: str | None, ids: Sequence[str], *, where: str = "there") -> str:
    """The text for a unit or ids of which there is no message."""
    of = [] if unit is None else [f"of unit {unit!r}"]
    if ids:
        of.append(f"with id {', '.join(map(repr, ids))}")
    return f"no message {' '.join(of)} is {where}"


def check_selector(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The selector; wrong usage where it is wrong, or empty: a shell variable that nobody set must not choose all."""
    if value is not None and not value.strip():
        raise click.BadParameter("a selector is not empty; leave it out", context, parameter)
    try:
        parse_selector(value)
    except InvalidSelectorError as error:
        raise click.BadParameter(str(error), context, parameter) from None
    return value


def subscription_options(function: Function) -> Function:
    """`--subscription` and `--client-id`; passed as `subscription` and `client_id`."""
    name = click.option(
        "--subscription", metavar="S", type=Text(), is_eager=True, help="The name is a topic: this subscription of it."
    )
    client_id = click.option(
        "--client-id",
        default="",
        metavar="ID",
        type=Text(),
        callback=_check_owner,
        help="The client id it belongs to. [none]",
    )
    return name(client_id(function))


def _check_owner(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value and context.params.get("subscription") is None:
        raise click.BadParameter(f"{value!r}: it tells whose --subscription it is; give that too", context, parameter)
    return value


def selector_option(function: Function) -> Function:
    """`--selector S`; passed as `selector`."""
    option = click.option(
        "--selector",
        metavar="S",
        type=Text(),
        callback=check_selector,
        help="Only those it chooses, such as \"region = 'EU' AND qty > 10\" (jbm-kafka docs selectors).",
    )
    return option(function)


def count_option(function: Function) -> Function:
    """`--count N` of what is only looked at; passed as `count`."""
    return click.option("--count", type=Whole(1), metavar="N", help="So many at most. [100; with --json all]")(function)


def answer_timeout_option(*, least: float, default: float) -> Callable[[Function], Function]:
    """`--timeout S`, at least `least`; passed as `timeout`."""
    return click.option(
        "--timeout",
        type=Seconds(least, 1e6),
        default=float(default),
        show_default=True,
        metavar="S",
        help="How long the processes that receive may take to answer.",
    )


def json_option(function: Function) -> Function:
    """`--json`; passed as `as_json`."""
    return _json(function, "one object")


def json_list_option(function: Function) -> Function:
    """As `json_option`, of a command that prints all in one array."""
    return _json(function, "one array")


def json_lines_option(function: Function) -> Function:
    """As `json_option`, of a command that prints messages as they come."""
    return _json(function, "one object a line")


def _json(function: Function, what: str) -> Function:
    return click.option("--json", "as_json", is_flag=True, help=f"Print JSON instead of text: {what}.")(function)


def emit(values: dict[str, object], text: str, *, as_json: bool) -> None:
    """Prints the result of a command, for a program or for a person."""
    click.echo(json.dumps(values) if as_json else text)
