"""The list of examples leads to programs: each place that it names shows code that runs."""

import re

import pytest

from tests.house.sources import ROOT

LIST = ROOT / "docs" / "examples.md"
LINKS = re.findall(r"\]\(([\w-]+\.md)?#([\w-]+)\)", LIST.read_text())


@pytest.mark.parametrize(("page", "anchor"), LINKS)
def test_what_the_list_names_is_a_program(page: str, anchor: str) -> None:
    text = (LIST.parent / (page or LIST.name)).read_text()
    programs = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
    sections = re.split(r"^#+ ", programs.sub(_without_headings, text), flags=re.MULTILINE)
    (section,) = [each for each in sections if _anchor(each.partition("\n")[0]) == anchor]
    assert re.search(r"^```(?:python|sh)$", section, re.M), f"{page}#{anchor} shows no program"


def _without_headings(block: re.Match[str]) -> str:
    """A comment of a program is none."""
    return re.sub(r"^#", " #", block[0], flags=re.M)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
