"""`jbm-kafka config`: what the configuration says, where each value comes from, and what is wrong with it."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from jbm_kafka.cli.cluster_options import Configured, configuration_options
from jbm_kafka.cli.command_options import json_option
from jbm_kafka.cli.lazy import CommandGroup
from jbm_kafka.cli.render import json_line, printable, table

FOUND = 3
"""The exit code where something is wrong: 1 is for a look that failed, 2 for wrong usage."""


@click.group(cls=CommandGroup)
def config() -> None:
    """The configuration of programs, commands, workers and sidecars: jbm-kafka.toml and JBM_ variables."""


@config.command()
@click.argument("file", metavar="[FILE]", required=False)
@configuration_options
@json_option
def check(file: str | None, configured: Configured, as_json: bool) -> int:
    """Tell each wrong value in a line of its own, with its place and remedy; unknown names, too. FILE is that of
    --config.

    Nothing is connected to. The exit code is 0 where nothing is wrong, and 3 where something is.
    """
    from jbm_kafka.cli.config_check import config_faults

    faults, loaded = config_faults(configured.at(file).path, configured.arguments)
    notes = [] if loaded is None else list(loaded.notes)
    if loaded is not None and loaded.unclear and loaded.tables.cluster is None:
        notes.append(loaded.unclear)  # no mistake of the file: whoever uses it may choose
    path = None if loaded is None or loaded.path is None else str(loaded.path)
    if as_json:
        click.echo(json_line({"file": path, "faults": faults, "notes": notes}))
    else:
        for line in faults:
            click.echo(printable(line))
        for note in notes:
            click.echo(printable(note), err=True)
        if not faults:
            click.echo(f"{path or 'no file, the environment alone'}: nothing is wrong")
    return FOUND if faults else 0


@config.command()
@click.option("--all", "with_defaults", is_flag=True, help="Defaults, too.")
@configuration_options
@json_option
def show(with_defaults: bool, configured: Configured, as_json: bool) -> None:
    """Show each value that is given, and where it comes from. Secrets are shown as ***."""
    from jbm_kafka.configuration.showing import shown_settings

    loaded = configured.loaded
    found = shown_settings(loaded, with_defaults=with_defaults)
    if as_json:
        click.echo(json_line([asdict(each) for each in found]))
        return
    click.echo(f"file: {loaded.path or 'none'}", err=True)
    if loaded.unclear:
        click.echo(loaded.unclear, err=True)
    table(("setting", "value", "from"), [(e.setting, printable(_text(e.value)), printable(e.origin)) for e in found])


@config.command()
def schema() -> None:
    """Print the JSON schema of the file, for editors: docs/configuration.md."""
    from jbm_kafka.configuration.schema import file_schema

    click.echo(json.dumps(file_schema(), indent=2, ensure_ascii=False))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
