"""Every link from one page to another leads somewhere, and the map leads to every page."""

import re
from pathlib import Path

from jbm_kafka.cli.made_tables import with_tables
from tests.house.sources import ROOT

_LINK = re.compile(r"\]\((?!\w+:)(?P<file>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(text)}


def test_every_link_leads_to_a_page_and_a_heading_of_it() -> None:
    broken = []
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        for link in _LINK.finditer(with_tables(page.read_text())):
            target = (page.parent / link["file"]).resolve() if link["file"] else page
            if not target.exists():
                broken.append(f"{page.relative_to(ROOT)}: {link['file']} is not there")
            elif link["anchor"] and link["anchor"] not in anchors(Path(target).read_text()):
                broken.append(f"{page.relative_to(ROOT)}: {link['file']} has no heading #{link['anchor']}")
    assert not broken, "\n".join(broken)


def test_the_map_has_every_page() -> None:
    docs = ROOT / "docs"
    mapped = {link["file"] for link in _LINK.finditer((docs / "README.md").read_text())}
    assert {page.name for page in docs.glob("*.md")} - mapped == {"README.md"}


def test_a_heading_becomes_the_anchor_that_a_browser_looks_for() -> None:
    assert anchors("# A page\n## When it's taken, *again*\n") == {"a-page", "when-its-taken-again"}
