"""A group of commands that imports a command's module only when that command runs: `jbm-kafka`, and `jbm-spark`.

`jbm-kafka broker` must not wait for RocksDB, Spark or the JMS API to be loaded, and must work while they are missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from jbm_kafka.cli.ending import Interrupted
from jbm_kafka.version import version


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command lives, and what the list of commands says about it."""

    target: str
    """`module:attribute` of the click command."""
    summary: str
    """Its line in `jbm-kafka --help`; kept here so that help imports nothing."""
    section: str = "Commands"
    """Under which heading it stands there."""
    is_hidden: bool = False
    """It is for developers of jbm-kafka, and does not stand there."""

    def load(self) -> click.Command:
        """The command itself; imports its module."""
        module, _, attribute = self.target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), self.target
        return command


class CommandGroup(click.Group):
    """A group whose commands end in one line when they are interrupted or used wrongly."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; wrong usage knows whose it is, also such as click's parser tells without."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise Interrupted from interrupt  # click would print an empty line for it
        except click.UsageError as error:
            name = ctx.invoked_subcommand
            command = None if name is None else self.get_command(ctx, name)
            if error.ctx is None and command is not None:
                error.ctx = click.Context(command, parent=ctx, info_name=name)
            raise


class LazyGroup(CommandGroup):
    """Lists its commands from a table, in its order, and loads the one that is called."""

    def __init__(
        self,
        *,
        table: Mapping[str, LazyCommand],
        help: str,  # noqa: A002 - click's own word
    ) -> None:
        version_option = click.Option(
            ["--version"], is_flag=True, expose_value=False, is_eager=True, callback=_print_version,
            help="Print the version and end.",
        )  # fmt: skip
        short = {"help_option_names": ["-h", "--help"]}  # of its commands, too
        super().__init__(help=help, no_args_is_help=True, params=[version_option], context_settings=short)
        self.table = table

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments begin with; wrong usage when the table has none of the name."""
        if args[0] not in self.table and not args[0].startswith("-"):  # click suggests those that it has loaded
            raise click.NoSuchCommand(args[0], possibilities=self.table, ctx=ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names as the table orders them."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, None: no command has it."""
        entry = self.table.get(cmd_name)
        return entry.load() if entry is not None else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the table's summaries; click's own way would import every module."""
        shown = {name: entry for name, entry in self.table.items() if not entry.is_hidden}
        for section in dict.fromkeys(entry.section for entry in shown.values()):
            with formatter.section(section):
                formatter.write_dl([(name, entry.summary) for name, entry in shown.items() if entry.section == section])


def _print_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:
        click.echo(f"{context.info_name} {version()}")
        context.exit()
