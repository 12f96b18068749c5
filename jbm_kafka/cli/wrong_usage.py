"""Wrong usage as one line: which command, what is wrong, what to do; click's own way is four lines and no remedy."""

import click


def usage_text(error: click.UsageError, program: str) -> str:
    """The line, for standard error."""
    command = program if error.ctx is None else error.ctx.command_path
    text = " ".join(error.format_message().split())
    is_of_click = isinstance(error, _OF_CLICK) or text.startswith("Got unexpected extra")
    if is_of_click and not text.endswith(("?", "?)")):  # what it suggests is a remedy
        text = f"{text.removesuffix('.')}; see {command} --help"
    return f"{command}: {text}"


_OF_CLICK = (
    click.MissingParameter,
    click.NoSuchCommand,
    click.NoSuchOption,
    click.BadOptionUsage,
    click.BadArgumentUsage,
)
"""Faults that click itself finds, and tells no remedy of."""
