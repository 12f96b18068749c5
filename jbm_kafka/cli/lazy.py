"""A group of commands that imports a command's module only when that command runs: `jbm-kafka`, and `jbm-spark`.

`jbm-kafka broker` must not wait for RocksDB, Spark or the JMS API to be loaded, and must work while they are missing.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
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
    """It is for those who work on jbm-kafka, and does not stand there."""

    def load(self) -> click.Command:
        """The command itself; imports its module."""
        module, _, attribute = self.target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), self.target
        return command


class HintingGroup(click.Group):
    """A group that says which command is meant, probably, where there is none of the name."""

    other_words: Mapping[str, str] = MappingProxyType({})
    """What the tools of other brokers call a command, and how it is written here."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command; wrong usage with the likely one when there is none of that name."""
        name = args[0]
        if name not in self.list_commands(ctx) and not name.startswith("-"):
            ctx.fail(f"there is no command {name!r}; {self._hint(ctx, name)}")
        return super().resolve_command(ctx, args)

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

    def _hint(self, ctx: click.Context, name: str) -> str:
        # A word of other brokers first: by its letters `purge` would be taken for `pause`.
        if name in self.other_words:
            return f"that is: {ctx.command_path} {self.other_words[name]}"
        names = self.list_commands(ctx)
        begun = [each for each in names if each.startswith(name)]
        likely = begun if len(begun) == 1 else difflib.get_close_matches(name, names, n=1)
        return f"{likely[0]!r} is meant, probably" if likely else f"see {ctx.command_path} --help"


class LazyGroup(HintingGroup):
    """Lists its commands from a table, in its order, and loads the one that is called."""

    def __init__(
        self,
        *,
        table: Mapping[str, LazyCommand],
        help: str,  # noqa: A002 - click's own word
        other_words: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        version_option = click.Option(
            ["--version"], is_flag=True, expose_value=False, is_eager=True, callback=_print_version,
            help="Print the version and end.",
        )  # fmt: skip
        short = {"help_option_names": ["-h", "--help"]}  # of its commands, too
        super().__init__(help=help, no_args_is_help=True, params=[version_option], context_settings=short)
        self.table, self.other_words = table, other_words

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names as the table orders them."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, None when there is none."""
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
