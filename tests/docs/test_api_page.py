"""docs/api.md has what every public name can do; that it has the names themselves tests/house/test_docs.py looks at."""

import inspect
import re
from enum import Enum

import pytest

import jbm_kafka
from jbm_kafka import admin
from tests.house.sources import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text()
WORDS = set(re.findall(r"\w+", PAGE))

TYPES = "boolean|byte|bytes|short|char|int|long|float|double|string|object"
TYPED = re.compile(rf"(get|set|read|write)_({TYPES})(_property)?")
"""One of them stands for all."""


def public_attributes(kind: type) -> set[str]:
    """What a user may call or read."""
    if issubclass(kind, Enum):
        return {member.name for member in kind}
    found = {name for name, _ in inspect.getmembers(kind) if not name.startswith("_") and hasattr(kind, name)}
    return {name for name in found if not TYPED.fullmatch(name)}


def test_every_name_of_the_administration_is_on_the_page() -> None:
    assert set(admin.__all__) - WORDS == set()


@pytest.mark.parametrize("name", [name for name in jbm_kafka.__all__ if inspect.isclass(getattr(jbm_kafka, name))])
def test_every_attribute_of_a_class_is_on_the_page(name: str) -> None:
    kind = getattr(jbm_kafka, name)
    if kind is jbm_kafka.AddressSettings:
        settings = (ROOT / "docs" / "settings.md").read_text()
        assert [field for field in public_attributes(kind) - {"given", "from_mapping"} if field not in settings] == []
        return
    assert public_attributes(kind) - WORDS == set()


def test_every_rule_that_can_keep_a_message_is_told_to_operators() -> None:
    words = set(re.findall(r"`([A-Z_]+)`", (ROOT / "docs" / "operating.md").read_text()))
    assert public_attributes(admin.Rule) - words == set()


def test_every_attribute_of_the_administration_is_on_the_page() -> None:
    assert public_attributes(admin.Admin) - WORDS == set()
