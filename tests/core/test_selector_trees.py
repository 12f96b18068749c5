"""Any selector does what a judge says that is written in another way; any text is read, or refused at a place in it."""

import math
import random
import time
from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jbm_kafka.core.jms_errors import InvalidSelectorError
from jbm_kafka.core.selectors.nodes import Value
from jbm_kafka.core.selectors.selector import LENGTH_MAX, Selector, parse_selector
from tests.core.selector_trees import TEXTS, Tree, conditions, judged, messages, value_of, written

STYLES = st.integers(0, 2**32)
_WORDS = """a b region 'EU' 'it''s' '%' 7 7. .5 0x1F 08 1e400 9223372036854775808 ( ) , = <> < <= > >= + - * / == != "
 ' NULL TRUE FALSE NOT AND OR BETWEEN LIKE IN IS ESCAPE JMSType JMSReplyTo JMSXDeliveryCount \x00 é"""
FRAGMENTS = st.sampled_from(_WORDS.split())


def selector(text: str) -> Selector:
    found = parse_selector(text)
    assert found is not None
    return found


@given(tree=conditions, message=messages, seed=STYLES)
@settings(max_examples=200, deadline=None)
def test_a_selector_chooses_what_the_tables_choose(tree: Tree, message: Mapping[str, Value], seed: int) -> None:
    """Of SEL-1: grammar and logic."""
    text = written(tree, random.Random(seed))
    assert selector(text).matches(message.get) is (judged(tree, message) == "T"), text


@given(tree=conditions, message=messages, seeds=st.tuples(STYLES, STYLES))
@settings(max_examples=200, deadline=None)
def test_the_same_in_other_words_is_equal_and_its_normal_form_means_the_same(
    tree: Tree, message: Mapping[str, Value], seeds: tuple[int, int]
) -> None:
    one, other = (selector(written(tree, random.Random(seed))) for seed in seeds)
    assert one == other
    assert hash(one) == hash(other)
    again = selector(one.normal)
    assert (again.normal, again.names) == (one.normal, one.names)
    assert again.matches(message.get) is one.matches(message.get)


@given(tree=conditions, message=messages, seed=STYLES)
@settings(deadline=None)
def test_a_selector_reads_no_name_but_those_it_tells(tree: Tree, message: Mapping[str, Value], seed: int) -> None:
    read: set[str] = set()

    def noted(name: str) -> Value:
        read.add(name)
        return message.get(name)

    found = selector(written(tree, random.Random(seed)))
    found.matches(noted)
    assert read <= found.names


LONGS = [0, 1, -1, 2, -3, 7, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
DOUBLES = [0.0, -0.0, 0.5, -1.5, 2.0, 7.0, 2.0**53, 2.0**63, 1e300, math.inf, -math.inf, math.nan]
VALUES: list[Value] = [None, True, False, *LONGS, *DOUBLES, *TEXTS]


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
def test_every_two_values_compare_as_the_tables_say(operator: str) -> None:
    """Of SEL-1: unlike values, and numbers of two kinds."""
    found, opposite = selector(f"a {operator} b"), selector(f"NOT a {operator} b")
    tree = ("compare", operator, ("name", "a"), ("name", "b"))
    for a, b in product(VALUES, VALUES):
        message = {"a": a, "b": b}
        letter = judged(tree, message)
        assert (found.matches(message.get), opposite.matches(message.get)) == (letter == "T", letter == "F"), message


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize("literal", ["7", "7.0", "-1", "9007199254740992.0", "'a'", "TRUE"])
def test_a_literal_compares_as_its_value_does(literal: str, operator: str) -> None:
    if operator not in ("=", "<>") and literal in ("'a'", "TRUE"):
        with pytest.raises(InvalidSelectorError):
            parse_selector(f"a {operator} {literal}")
        return
    texts: dict[str, Value] = {"'a'": "a", "TRUE": True}
    value = texts[literal] if literal in texts else (float if "." in literal else int)(literal)
    one, other = selector(f"a {operator} {literal}"), selector(f"{literal} {operator} a")
    for a in VALUES:
        pair = {"a": a, "b": value}
        assert one.matches(pair.get) is selector(f"a {operator} b").matches(pair.get), a
        assert other.matches(pair.get) is selector(f"b {operator} a").matches(pair.get), a


@pytest.mark.parametrize("operator", ["+", "-", "*", "/"])
def test_every_two_values_are_calculated_as_in_java(operator: str) -> None:
    """Of SEL-1: promotion, 64 bits, what a division leaves."""
    equal, differs = selector(f"a {operator} b = c"), selector(f"a {operator} b <> c")
    tree = ("arithmetic", operator, ("name", "a"), ("name", "b"))
    for a, b in product(VALUES, VALUES):
        typed = value_of(tree, {"a": a, "b": b})
        result: Value = 0 if typed is None else typed[1]
        message: dict[str, Value] = {"a": a, "b": b, "c": result}
        is_nan = result != result
        expected = (False, False) if typed is None else (not is_nan, is_nan)
        assert (equal.matches(message.get), differs.matches(message.get)) == expected, message


@pytest.mark.parametrize("pattern", ["".join(p) for n in range(5) for p in product("a_%", repeat=n)])
def test_a_pattern_fits_what_the_table_of_prefixes_says(pattern: str) -> None:
    """Of SEL-1: LIKE."""
    found = selector(f"a LIKE '{pattern}'")
    for text in ("".join(t) for n in range(5) for t in product("ab\n", repeat=n)):
        expected = judged(("like", False, "a", pattern, None), {"a": text})
        assert found.matches({"a": text}.get) is (expected == "T"), text


def refused_or_read(text: str) -> None:
    try:
        found = parse_selector(text)
    except InvalidSelectorError as error:
        refused = error
    else:
        assert found is None or found.matches(lambda _: None) in (True, False)
        return
    assert isinstance(refused.position, int)
    assert 1 <= refused.position <= len(text) + 1
    assert "\n" not in str(refused)
    assert len(str(refused)) < 600


@given(st.text())
@example("a\u0130s null")
@example("'")
@example("\ud800")
@settings(deadline=None)
def test_any_text_is_read_or_refused_at_a_place_within_it(text: str) -> None:
    """Of SEL-1: the position."""
    refused_or_read(text)


@given(st.lists(FRAGMENTS, max_size=12).map(" ".join))
@settings(max_examples=200, deadline=None)
def test_any_row_of_words_is_read_or_refused_at_a_place_within_it(text: str) -> None:
    """Of SEL-1: the position."""
    refused_or_read(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 2**20,
        "(" * 30_000 + "a" + ")" * 30_000,
        "(" * 60_000,
        "NOT " * 16_000 + "a",
        "- " * 30_000 + "a = 1",
        " OR ".join(["a = 1"] * 6_000),
        " + ".join(["a"] * 16_000) + " > 1",
        "a AND (b OR (" * 5_000,
        "a = (" * 10_000 + "b" + ")" * 10_000,
        "a AND (b OR (" * 3_000 + "a" + "))" * 3_000,
        "(1 + 2 * " * 5_000 + "a" + ")" * 5_000 + " > 1",
        "a IN (" + "'b'," * 15_000,
        "a LIKE '" + "%a" * 400 + "'",
        "a LIKE '" + "%_" * 400 + "b'",
        "'" * 65_535,
        "9" * 60_000,
        "1." + "_" * 60_000,
        "x" * 60_000,
        "é" * 60_000,
    ],
    ids=lambda text: f"{text[:14]!r}",
)
def test_no_text_takes_long_or_uses_up_the_stack(text: str) -> None:
    began = time.process_time()
    refused_or_read(text)
    assert time.process_time() - began < 5.0


def test_what_no_message_can_hold_is_refused_as_no_record_could_hold_it_either() -> None:
    with pytest.raises(InvalidSelectorError, match=r"column 6: found '\\udc80', expected a whole character") as refused:
        parse_selector("a = '\udc80'")
    assert refused.value.position == 6


def test_a_selector_has_a_length_that_it_may_have() -> None:
    text = "a" * LENGTH_MAX
    assert selector(text).names == {text}
    with pytest.raises(InvalidSelectorError, match=f"at most {LENGTH_MAX}") as refused:
        parse_selector(text + "a")
    assert refused.value.position == LENGTH_MAX + 1


@pytest.mark.parametrize("pattern", ["%a" * 50 + "b", "%a_" * 50 + "b", "%_" * 200 + "b", "a" * 500 + "%" + "a" * 499])
def test_a_pattern_that_nearly_fits_everywhere_is_not_tried_in_every_way(pattern: str) -> None:
    found = selector(f"a LIKE '{pattern}'")
    began = time.process_time()
    found.matches({"a": "a" * 10_000}.get)
    assert time.process_time() - began < 2.0
