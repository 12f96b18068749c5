"""What a page lists beside the docstrings is all that there is."""

import re
from typing import get_args

from jbm_kafka.admin.dead_letters.letters import REASONS, LetterReason
from tests.docs.page_tables import rows, section
from tests.house.sources import ROOT


def test_every_reason_of_a_dead_letter_is_told() -> None:
    told = section((ROOT / "docs" / "dead-letters.md").read_text(), "Why it left")
    assert tuple(row[0].strip("`") for row in rows(told)) == REASONS
    assert get_args(LetterReason) == REASONS


def test_each_decision_has_a_number_of_its_own_and_each_chapter_is_named() -> None:
    """Two that are made at the same time may take one number."""
    folder = ROOT / "docs" / "decisions"
    chapters = [path for path in folder.glob("*.md") if path.name != "README.md"]
    numbers = [number for path in chapters for number in re.findall(r"^## (\d+)\. ", path.read_text(), re.M)]
    assert len(numbers) > 100
    assert sorted(numbers) == sorted(set(numbers))
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "README.md").read_text())) == {p.name for p in chapters}
