"""`jbm-kafka docs`: the pages that come with the package, and the two of public names that it writes itself."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from jbm_kafka.cli.api_pages import API_PAGES, api_page
from jbm_kafka.cli.made_tables import with_tables
from jbm_kafka.cli.render import table


def docs_folder() -> Traversable:
    """Where the pages are: in an installed package, or in a checkout beside it."""
    packaged = files("jbm_kafka") / "docs"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "docs"


def page_names() -> Sequence[str]:
    """Return those for users, without `.md`."""
    written = [each.name.removesuffix(".md") for each in docs_folder().iterdir() if each.name.endswith(".md")]
    return sorted([*written, *API_PAGES])


class PageName(click.ParamType[str]):
    """A page, as `runbook`; `docs/runbook.md` too."""

    name = "page"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = value.removeprefix("docs/").removesuffix(".md")
        if name not in page_names():
            self.fail(f"there is no page {value!r}; jbm-kafka docs lists them", param, ctx)
        return name

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in page_names() if name.startswith(incomplete)]


@click.command()
@click.argument("page", required=False, type=PageName())
def docs(page: str | None) -> None:
    """Print a PAGE of the documentation, as Markdown; without one list the pages."""
    if page is not None:
        is_made = page in API_PAGES
        text = api_page(page) if is_made else with_tables((docs_folder() / f"{page}.md").read_text(encoding="utf-8"))
        click.echo(text, nl=False)
        return
    table(("page", "about"), [(name, _title(name)) for name in page_names()])


def _title(name: str) -> str:
    if name in API_PAGES:
        return API_PAGES[name][0]
    with (docs_folder() / f"{name}.md").open(encoding="utf-8") as page:
        return page.readline().removeprefix("# ").strip()
