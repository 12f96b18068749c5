"""A page says in its first sentence what a reader gets from it, and at its end where to go; the map has all pages."""

import re
from pathlib import Path

import pytest

from tests.house.sources import ROOT

PAGES = sorted((ROOT / "docs").glob("*.md"))
MAP = ROOT / "docs" / "README.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_begins_with_one_sentence_on_what_the_reader_gets(page: Path) -> None:
    first = page.read_text().split("\n\n", 2)[1]
    assert re.match(r"(After|With) this ", first), f"{page.name} begins with: {first}"
    assert first.count(". ") == 0, f"{page.name} begins with more than one sentence: {first}"


@pytest.mark.parametrize("page", [page for page in PAGES if page != MAP], ids=lambda page: page.name)
def test_a_page_ends_with_where_to_go_on(page: Path) -> None:
    _, _, end = page.read_text().rpartition("\n## ")
    assert end.startswith("Go on\n| you want to | read |\n"), f"{page.name} ends with: {end}"
    assert end.count("](") >= 2, f"{page.name} leads nowhere: {end}"


def test_the_map_has_every_page() -> None:
    mapped = set(re.findall(r"\]\(([\w.-]+\.md)\)", MAP.read_text()))
    assert {page.name for page in PAGES} - mapped == {MAP.name}
