"""The pages are as true as a test can tell."""

import re

import jbm_kafka
from jbm_kafka import errors
from tests.house.sources import ROOT
from tests.house.state_machine import PAGE, page


def test_the_state_machine_page_is_that_of_the_table() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.house.state_machine"


def test_every_public_name_is_documented() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    names = set(jbm_kafka.__all__) | set(errors.__all__)
    named = set(re.findall(r"`(?:errors\.)?(\w+)", text))
    assert names - named == set()
    constants = {"NO_UNIT", "SYSTEM_GENERATED"}
    assert [name for name in sorted(set(jbm_kafka.__all__) - constants) if not getattr(jbm_kafka, name).__doc__] == []
    assert [name for name in errors.__all__ if not getattr(errors, name).__doc__] == []


def test_every_link_of_the_pages_leads_somewhere() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
            assert "://" in target or (path.parent / target).exists(), f"{path.name}: {target}"
