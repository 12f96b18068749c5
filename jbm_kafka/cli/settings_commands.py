"""`jbm-kafka settings list | set | unset`: address settings in the registry, which win over those of factories."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import NoneType
from typing import Any

import click

from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import emit, json_list_option, json_option
from jbm_kafka.cli.connect import admin_of
from jbm_kafka.cli.lazy import CommandGroup
from jbm_kafka.cli.render import json_line, printable, table
from jbm_kafka.core.jms_errors import InvalidSettingError, JMSError
from jbm_kafka.core.sentinels import SYSTEM_GENERATED, UnitMarker
from jbm_kafka.core.settings.address_pattern import ANY_WORDS, checked_pattern, matches
from jbm_kafka.core.settings.address_settings import AddressSettings, check_setting_name
from jbm_kafka.core.settings.setting_rules import TYPES

NOTHING = "nothing"
"""The text shown for an empty value."""
FROM_NOW_ON = "partitions: of queues that are created from now on; those that are there keep theirs"
FOR_NONE_YET = "no queue or topic matches yet; it holds for one from its creation on"


def _as_pattern(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    try:
        if value is not None:
            checked_pattern(value)
    except InvalidSettingError as error:
        raise click.BadParameter(str(error), context, parameter) from None
    return value


def _as_settings(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> AddressSettings:
    values: dict[str, Any] = {}
    try:
        for each in given:
            name, equals, text = each.partition("=")
            check_setting_name(name)
            if not equals:
                or_none = f", or {name}= for none" if NoneType in TYPES[name] else ""
                raise click.BadParameter(f"{each!r}: write {name}=VALUE{or_none}", context, parameter)
            if name in values:
                raise click.BadParameter(f"{name} is given twice", context, parameter)
            values[name] = _value(name, text)
        return AddressSettings.from_mapping(values)
    except InvalidSettingError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def _value(name: str, text: str) -> object:
    """Return what the text stands for as a value of the setting; what stands for none stays text, and is refused as
    such."""
    types = TYPES[name]
    if text == "" and NoneType in types:
        return None
    if types == (bool,):
        return {"true": True, "false": False}.get(text.lower(), text)
    if UnitMarker in types and text == SYSTEM_GENERATED.value:
        return SYSTEM_GENERATED
    for kind in (int, float):
        if kind in types:
            try:
                return kind(text)
            except ValueError:
                continue
    return text


def _as_names(context: click.Context, parameter: click.Parameter, names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if "=" in name:
            raise click.BadParameter(f"{name!r}: the name alone, without a value", context, parameter)
    return names


@contextmanager
def _wrong_is_wrong_usage() -> Iterator[None]:
    try:
        yield
    except InvalidSettingError as error:
        raise click.UsageError(str(error)) from None


@click.group(cls=CommandGroup)
def settings() -> None:
    """Settings of queues and topics by pattern, for all processes and while they run.

    They win over what a program's factory says, setting by setting. A pattern is a name, or has words with `*` for one
    and `#` for any number: quote it for the shell.
    """


@settings.command(name="list")
@click.argument("pattern", required=False, callback=_as_pattern)
@cluster_options
@json_list_option
def list_settings(pattern: str | None, cluster: Cluster, as_json: bool) -> None:
    """List what is recorded, of all patterns or of one. What programs say in their factories is not known here."""
    with admin_of(cluster) as admin:
        found = admin.address_settings(pattern)
    if as_json:
        click.echo(json_line([{"pattern": each, "settings": _plain(said)} for each, said in found.items()]))
    elif not found:
        of = "" if pattern is None else f" for {pattern!r}"
        click.echo(f"nothing is recorded{of}: what the factories of programs say holds, and else the defaults")
    else:
        rows = [(each, name, _shown(value)) for each, said in found.items() for name, value in said.given().items()]
        table(("pattern", "setting", "value"), rows)


@settings.command(
    name="set",
    short_help="Record settings: NAME=VALUE, again for more.",
    epilog=f"NAME is one of {', '.join(TYPES)}. Example: jbm-kafka settings set 'orders.#' max_delivery_attempts=3",
)
@click.argument("pattern", callback=_as_pattern)
@click.argument("given", metavar="NAME=VALUE...", nargs=-1, required=True, callback=_as_settings)
@cluster_options
@json_option
def set_(pattern: str, given: AddressSettings, cluster: Cluster, as_json: bool) -> None:
    """Record settings for the queues and topics that PATTERN matches. Running processes go by them a second later.

    Others that are recorded for the pattern stay. An empty value (dead_letter_address=) sets nothing there,
    whatever a wider pattern or a factory says.
    """
    with admin_of(cluster) as admin:
        with _wrong_is_wrong_usage():
            admin.set_address_settings(pattern, given)
        now = admin.address_settings(pattern).get(pattern, AddressSettings())
        is_for_none = pattern != ANY_WORDS and not any(matches(pattern, each.name) for each in admin.destinations())
    _print_settings(pattern, now, as_json=as_json)
    if "partitions" in given.given():
        click.echo(FROM_NOW_ON, err=True)
    if is_for_none:
        click.echo(f"{pattern}: {FOR_NONE_YET}", err=True)


@settings.command(short_help="Record nothing any more of settings, or of a pattern.")
@click.argument("pattern", callback=_as_pattern)
@click.argument("names", metavar="[NAME...]", nargs=-1, callback=_as_names)
@cluster_options
@json_option
def unset(pattern: str, names: Sequence[str], cluster: Cluster, as_json: bool) -> None:
    """Record nothing any more of these settings for PATTERN, or, without names, nothing at all.

    What wider patterns and the factories of programs say holds again. Where nothing of that was recorded the exit code
    is 1.
    """
    with admin_of(cluster) as admin:
        with _wrong_is_wrong_usage():  # only the registry knows the names that a newer version recorded
            was_recorded = admin.unset_address_settings(pattern, *names)
        now = admin.address_settings(pattern).get(pattern, AddressSettings())
    if was_recorded or as_json:
        _print_settings(pattern, now, as_json=as_json, none="nothing is recorded any more")
    if not was_recorded:
        what = f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} not" if names else "nothing was"
        raise JMSError(f"{pattern}: {what} recorded; jbm-kafka settings list shows what is")


def _print_settings(pattern: str, now: AddressSettings, *, as_json: bool, none: str = "nothing is recorded") -> None:
    said = ", ".join(f"{name}={_shown(value)}" for name, value in now.given().items())
    emit({"pattern": pattern, "settings": _plain(now)}, f"{pattern}: {said or none}", as_json=as_json)


def _plain(said: AddressSettings) -> Mapping[str, object]:
    return {name: value.value if isinstance(value, UnitMarker) else value for name, value in said.given().items()}


def _shown(value: object) -> str:
    if value is None:
        return NOTHING
    return printable(str(value.value if isinstance(value, UnitMarker) else value))
