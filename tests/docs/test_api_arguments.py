"""docs/api.md, or the page that it points to for the thing, names every argument of every public call."""

import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum

import pytest

import jbm_kafka
from jbm_kafka import admin
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.house.sources import ROOT

OF_VALUES = re.compile(r"(get|set|read|write)_\w+")
"""Accessors of messages: a name and a value each."""


def words_of(*pages: str) -> set[str]:
    """Those in code: as words `what` and `order` stand anywhere."""
    texts = "\n".join((ROOT / "docs" / page).read_text() for page in pages)
    blocks, inline = re.split(r"^```\w*$", texts, flags=re.M)[1::2], re.findall(r"`([^`\n]+)`", texts)
    return {word for code in (*blocks, *inline) for word in re.findall(r"\w+", code)}


def calls_of(kind: type) -> Iterator[tuple[str, Callable[..., object]]]:
    """What a user may call of the class; its making too, unless another object makes it."""
    if "made by `" not in (kind.__doc__ or "").lower() and any("__init__" in vars(base) for base in kind.__mro__[:-1]):
        yield kind.__name__, kind
    for name, member in inspect.getmembers(kind, inspect.isroutine):
        if not name.startswith("_") and not OF_VALUES.fullmatch(name):
            yield f"{kind.__name__}.{name}", member


def arguments_of(call: Callable[..., object]) -> list[str]:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = inspect.signature(call).parameters.values()
    return [each.name for each in found if each.kind in named and each.name not in ("self", "cls")]


CLASSES = [found for name in jbm_kafka.__all__ if inspect.isclass(found := getattr(jbm_kafka, name))]
KINDS = [*(kind for kind in CLASSES if not issubclass(kind, Enum)), admin.Admin, MemoryWorld]
ELSEWHERE = {
    jbm_kafka.ConnectionFactory: ("settings.md",),
    jbm_kafka.AddressSettings: ("settings.md",),
    MemoryWorld: ("testing.md",),
}
"""Pages that the row of a class points to, for its making."""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_argument_of_a_call_is_on_the_page(kind: type) -> None:
    page = "api-admin.md" if kind is admin.Admin else "api.md"
    on_page, of_making = words_of(page), words_of(page, *ELSEWHERE.get(kind, ()))
    for name, call in calls_of(kind):
        words = of_making if call is kind else on_page
        assert [each for each in arguments_of(call) if each not in words] == [], name
