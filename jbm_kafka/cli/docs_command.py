"""`jbm-kafka docs [PAGE]`: the pages that messages name, wherever the package is installed."""

from difflib import get_close_matches
from pathlib import Path

import click

from jbm_kafka.cli.command_options import Text


@click.command()
@click.argument("page", type=Text(), default="")
def docs(page: str) -> None:
    """Print a page of the documentation, such as `runbook`; without PAGE list them."""
    pages = {each.relative_to(_folder()).with_suffix("").as_posix(): each for each in sorted(_folder().rglob("*.md"))}
    name = page.removeprefix("docs/").removesuffix(".md")
    if not page:
        for each, file in pages.items():
            if "/" not in each:  # the decisions are for those who change it; their list is decisions/README
                click.echo(f"{each:28} {_title(file)}")
    elif name in pages:
        click.echo(pages[name].read_text(encoding="utf-8"), nl=False)
    else:
        near = "".join(f"did you mean {each!r}? " for each in get_close_matches(name, pages, 1))
        raise click.BadParameter(f"there is no page {page!r}: {near}'jbm-kafka docs' lists them", param_hint="'PAGE'")


def _folder() -> Path:
    """Where the pages are."""
    package = Path(__file__).parents[1]
    # In a source tree, which is also what an editable install uses, they stand beside the package.
    return package / "docs" if (package / "docs").is_dir() else package.parent / "docs"


def _title(file: Path) -> str:
    with file.open(encoding="utf-8") as lines:
        return lines.readline().removeprefix("# ").strip()
