"""What a page lists beside the docstrings is all that there is."""

import re
from typing import get_args

from jbm_kafka import AddressSettings, admin
from jbm_kafka.admin.dead_letters.letters import REASONS, LetterReason
from jbm_kafka.cli.api_pages import members
from tests.docs.page_tables import rows, section
from tests.house.sources import ROOT


def test_the_page_of_settings_has_every_rule_of_addresses() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    fields = {member.name for member in members(AddressSettings)} - {"given", "from_mapping"}
    assert {"partitions", "routing"} <= fields
    assert [field for field in fields if f"`{field}`" not in page] == []


def test_every_reason_of_a_dead_letter_is_told() -> None:
    told = section((ROOT / "docs" / "dead-letters.md").read_text(), "Why it left")
    assert tuple(row[0].strip("`") for row in rows(told)) == REASONS
    assert get_args(LetterReason) == REASONS


def test_every_rule_that_can_keep_a_message_is_told_to_operators() -> None:
    words = set(re.findall(r"`([A-Z_]+)`", (ROOT / "docs" / "operating.md").read_text()))
    assert {rule.name for rule in admin.Rule} - words == set()
