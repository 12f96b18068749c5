"""Options that every command spells the same way."""

import json
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any, TypeVar

import click

from jbm_kafka.core.errors import InvalidSelectorError
from jbm_kafka.core.selectors.selector import parse_selector

Function = TypeVar("Function", bound=Callable[..., Any])


class Seconds(click.FloatRange):
    """A duration; `nan`, which is in any range, is wrong usage."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The seconds; wrong usage for what is not a number of them."""
        least, most = self.min or 0.0, self.max or inf
        with suppress(ValueError):
            if least <= float(value) <= most:
                return float(value)
        raise click.BadParameter(f"{value!r} is not a number of seconds from {least:g} to {most:g}", ctx, param)


class Whole(click.IntRange):
    """A whole number of a size."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; wrong usage for any other text."""
        with suppress(ValueError):
            number = int(value)
            if (self.min is None or number >= self.min) and (self.max is None or number <= self.max):
                return number
        reach = f"of at least {self.min}" if self.max is None else f"from {self.min} to {self.max}"
        raise click.BadParameter(f"{value!r} is not a whole number {reach}", ctx, param)


def check_unit(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A unit of order as given; wrong usage when no message could have it."""
    if value == "":
        raise click.BadParameter("a unit of order has a name; leave it out for none", context, parameter)
    try:
        (value or "").encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter(f"{value!a} is no UTF-8, as the name of a unit is", context, parameter) from error
    return value


def check_selector(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A selector as given; wrong usage when it is none."""
    try:
        parse_selector(value)
    except InvalidSelectorError as error:
        raise click.BadParameter(str(error), context, parameter) from None
    return value


def selector_option(function: Function) -> Function:
    """`--selector S`; passed as `selector`."""
    option = click.option(
        "--selector",
        metavar="S",
        callback=check_selector,
        help="Only those it chooses, such as \"region = 'EU' AND qty > 10\" (docs/selectors.md).",
    )
    return option(function)


def json_option(function: Function) -> Function:
    """`--json`; passed as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(function)


def emit(values: dict[str, object], text: str, *, as_json: bool) -> None:
    """Prints the result of a command, for a program or for a person."""
    click.echo(json.dumps(values) if as_json else text)
