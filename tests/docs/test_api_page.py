"""The pages of names have what every public name can do; that docs/api.md has the names themselves
tests/house/test_docs.py looks at."""

import inspect
import re
from enum import Enum
from typing import get_args

import pytest

import jbm_kafka
from jbm_kafka import BytesMessage, MapMessage, Message, StreamMessage, admin, errors
from jbm_kafka.admin.dead_letters.letters import REASONS, LetterReason
from jbm_kafka.codec.dead_letter import Origin
from tests.house.sources import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text()
OF_ADMIN = (ROOT / "docs" / "api-admin.md").read_text()
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
WORDS = set(re.findall(r"\w+", PAGE))

ACCESSOR = re.compile(r"(get|set|read|write)_(?!body$)\w+")
"""Of messages: a value and its type. They have a table of their own."""

RESULTS: dict[str, tuple[type, ...]] = {
    name: (getattr(admin, name),) for name in admin.__all__ if name not in ("Admin", "Pause", "Halt")
}
RESULTS |= {"Pause and Halt": (admin.Pause, admin.Halt), "Origin": (Origin,)}
"""What calls of `Admin` return, by the heading of its table. An `Origin` cannot be imported: a `DeadLetter` has it."""


def public_attributes(kind: type) -> set[str]:
    """What a user may call or read."""
    if issubclass(kind, Enum):
        return {member.name for member in kind}
    own_of_tuples = set(dir(tuple)) if issubclass(kind, tuple) else set()
    names = {name for name, _ in inspect.getmembers(kind) if not name.startswith("_") and hasattr(kind, name)}
    return names - own_of_tuples


def type_of(kind: type, name: str) -> str:
    """What the column of types says of a field, a property or a method: `int` or `None`."""
    found = inspect.getattr_static(kind, name, None)
    function = found.fget if isinstance(found, property) else found if inspect.isfunction(found) else None
    said = inspect.signature(function).return_annotation if function else kind.__annotations__[name]
    text = said if isinstance(said, str) else inspect.formatannotation(said)
    return " or ".join(f"`{each}`" for each in re.sub(r"\b([a-z_]+\.)+", "", text).split(" | "))


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", page, re.S | re.M)
    assert found is not None, heading
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of its tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    heads = {index - 1 for index, row in enumerate(cells) if set("".join(row)) == {"-"}}
    return [row for index, row in enumerate(cells) if index not in heads and index - 1 not in heads]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`(\w+)", cell)


def test_every_name_of_the_administration_is_on_its_page() -> None:
    assert set(admin.__all__) - set(re.findall(r"\w+", OF_ADMIN)) == set()


@pytest.mark.parametrize("name", [name for name in jbm_kafka.__all__ if inspect.isclass(getattr(jbm_kafka, name))])
def test_every_attribute_of_a_class_is_on_the_page(name: str) -> None:
    kind = getattr(jbm_kafka, name)
    if kind is jbm_kafka.AddressSettings:
        assert [field for field in public_attributes(kind) - {"given", "from_mapping"} if field not in SETTINGS] == []
        return
    assert public_attributes(kind) - WORDS - set(dir(Exception)) == set()


@pytest.mark.parametrize(
    ("column", "kind", "pattern"),
    [
        (2, Message, r"(get|set)_\w+_property"),
        (3, MapMessage, r"(get|set)_(?!body$)(?!\w+_property$)\w+"),
        (4, StreamMessage, r"(read|write)_\w+"),
        (5, BytesMessage, r"(read|write)_\w+"),
    ],
)
def test_the_accessors_of_messages_are_listed(column: int, kind: type, pattern: str) -> None:
    """They stood there as "and so for each type": no search for `read_long` found anything."""
    listed = [name for row in rows(section(PAGE, "Values by type")) for name in names_in(row[column])]
    assert sorted(listed) == sorted(name for name in public_attributes(kind) if re.fullmatch(pattern, name))


@pytest.mark.parametrize("heading", RESULTS)
def test_every_field_of_a_result_is_told(heading: str) -> None:
    """They hid behind an ellipsis."""
    told = [name for row in rows(section(OF_ADMIN, heading)) for name in names_in(row[0])]
    fields = [name for kind in RESULTS[heading] for name in public_attributes(kind)]
    assert sorted(told) == sorted(fields)


@pytest.mark.parametrize("heading", [heading for heading, kinds in RESULTS.items() if not issubclass(kinds[0], Enum)])
def test_the_type_of_every_field_is_told(heading: str) -> None:
    """A reader had to try whether a time is an int, and whether a field may be None."""
    told = {name: row[1] for row in rows(section(OF_ADMIN, heading)) for name in names_in(row[0])}
    types = {name: type_of(kind, name) for kind in RESULTS[heading] for name in public_attributes(kind)}
    assert told == types


def test_an_error_of_the_administration_is_told_with_its_call() -> None:
    """In the call's own docstring, or in that of the call to which it leads."""
    for error, calls, _ in rows(section(OF_ADMIN, "Which error when")):
        for name in {name for name in names_in(calls) if hasattr(admin.Admin, name)}:
            text = inspect.getdoc(getattr(admin.Admin, name)) or ""
            texts = [text, *(getattr(admin.Admin, other).__doc__ for other in re.findall(r"as of `(\w+)`", text))]
            told = [each for each in names_in(error) if each == "JMSError" or any(each in text for text in texts)]
            assert told == names_in(error), name
        assert [each for each in names_in(error) if not hasattr(errors, each)] == []


def test_every_reason_of_a_dead_letter_is_told() -> None:
    assert tuple(re.findall(r'^\| `"([\w-]+)"` \|', section(OF_ADMIN, "Dead letters"), re.M)) == REASONS
    assert get_args(LetterReason) == REASONS


def test_every_rule_that_can_keep_a_message_is_told_to_operators() -> None:
    words = set(re.findall(r"`([A-Z_]+)`", (ROOT / "docs" / "operating.md").read_text()))
    assert public_attributes(admin.Rule) - words == set()


def test_every_call_of_the_administration_is_on_its_page() -> None:
    assert public_attributes(admin.Admin) - set(re.findall(r"\w+", OF_ADMIN)) == set()


def test_the_page_tells_what_else_an_error_is() -> None:
    """Who catches `ValueError` or `TimeoutError` is to find which errors that takes."""
    for row in rows(section(PAGE, "Errors")):
        for name in re.findall(r"`errors\.(\w+)`", row[0]):
            bases = {base.__name__ for base in getattr(errors, name).__bases__} - {"JMSError", "Exception"}
            assert set(names_in(row[2])) == bases, name


def test_a_table_of_the_administration_names_an_argument_as_the_call_does() -> None:
    """`admin.counts(queue)` stood there, and `counts(queue=…)` was refused."""
    told = re.findall(r"`admin\.(\w+)\(([^)]*)\)", "\n".join(" | ".join(row) for row in rows(OF_ADMIN)))
    wrong = [
        (call, argument)
        for call, arguments in told
        for argument in re.findall(r"\w+", re.sub(r"=[^,]*", "", arguments))
        if argument not in inspect.signature(getattr(admin.Admin, call)).parameters
    ]
    assert told
    assert wrong == []
