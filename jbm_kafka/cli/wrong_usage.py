"""Wrong usage as one line: which command, what is wrong, what to do; click's own way is four lines and no remedy."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from shlex import quote

import click

_EXTRA = re.compile(r"Got unexpected extra argument \((\S+)\)$")
_OF_EXTRA: Mapping[str, str] = {
    "jbm-kafka list": "jbm-kafka show",
    "jbm-kafka dead-letters list": "jbm-kafka dead-letters list --from",
    "jbm-kafka dead-letters retry": "jbm-kafka dead-letters retry --from",
}
"""Where people name a queue behind a command that takes none: what takes one."""

_OTHER_WORDS: Mapping[str, tuple[str, ...]] = {
    "--body": ("--text",),
    "--delay": ("--delay-ms",),
    "--expiration": ("--time-to-live-ms",),
    "--group": ("--unit",),
    "--header": ("--property",),
    "--key": ("--unit",),
    "--message": ("--text",),
    "--message-id": ("--id",),
    "--target": ("--to",),
    "--ttl": ("--time-to-live-ms",),
    "--unit-of-order": ("--unit",),
}
"""What other systems call an option, and what it may be here."""
_NO_OPTION: Mapping[str, str] = {"jbm-kafka send --file": "the file stands behind the name: jbm-kafka send DEST FILE"}
"""What people take for an option, by their commands."""


def usage_text(error: click.UsageError, program: str) -> str:
    """The line, for standard error."""
    context = error.ctx
    command = program if context is None else context.command_path
    return f"{command}: {_what_is_wrong(error, context, program)}"


def _what_is_wrong(error: click.UsageError, context: click.Context | None, program: str) -> str:
    told = " ".join(error.format_message().split()).removesuffix(".")
    if isinstance(error, click.NoSuchOption):
        told = f"there is no option {error.option_name!r}"
        is_program = context is not None and context.parent is None
        if context is not None and (instead := _NO_OPTION.get(f"{context.command_path} {error.option_name}")):
            return f"{told}; {instead}"
        likely = _other_word(error.option_name, context) or _close(
            error.option_name, error.possibilities or (), cutoff=0.8 if is_program else 0.6
        )
        if likely:
            return f"{told}; {' or '.join(map(repr, likely))} is meant, probably"
        if is_program:
            return f"{told} here; options stand behind their command: {program} COMMAND {error.option_name}"
    extra = _EXTRA.match(told)
    if extra is not None and context is not None and context.command_path in _OF_EXTRA:
        return f"{extra[1]!r} is no argument here; that is: {_OF_EXTRA[context.command_path]} {quote(extra[1])}"
    if _is_of_click(error, told) and context is not None:
        return f"{told}; see {context.command_path} --help"
    return told


def _other_word(name: str, context: click.Context | None) -> list[str]:
    """The option of this command that other systems call so."""
    if context is None:
        return []
    known = [option for parameter in context.command.params for option in parameter.opts]
    return [option for option in _OTHER_WORDS.get(name, ()) if option in known]


def _close(name: str, options: Sequence[str], *, cutoff: float) -> list[str]:
    """Those that are like it by their letters: the dashes that all have in front make any two of them alike."""
    by_word = {option.lstrip("-"): option for option in options}
    return [by_word[word] for word in get_close_matches(name.lstrip("-"), by_word, cutoff=cutoff)]


def _is_of_click(error: click.UsageError, told: str) -> bool:
    """Its own faults tell no remedy; ours do."""
    own = click.MissingParameter | click.NoSuchOption | click.BadOptionUsage | click.BadArgumentUsage
    return isinstance(error, own) or told.startswith("Got unexpected extra")
