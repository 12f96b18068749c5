"""The selector language, example by example: the specification's own, and what it leaves open (docs/selectors.md)."""

import pytest

from jbm_kafka.core.jms_errors import InvalidSelectorError
from jbm_kafka.core.selectors.nodes import Value
from jbm_kafka.core.selectors.selector import Selector, parse_selector

MESSAGE: dict[str, Value] = {
    "JMSType": "car",
    "JMSDeliveryMode": "PERSISTENT",
    "JMSPriority": 4,
    "color": "blue",
    "weight": 2600,
    "age": 17,
    "Country": "UK",
    "phone": "12993",
    "word": "lose",
    "underscored": "_foo",
    "NumberOfOrders": "2",
    "paid": True,
    "lost": False,
    "average": 7.0,
    "least": -(2**63),
    "twentynine": 29,
    "single": 0.10000000149011612,
    "quote": "literal's",
}


def chosen(text: str) -> bool:
    found = parse_selector(text)
    assert found is not None
    return found.matches(MESSAGE.get)


def normal(text: str) -> str:
    found = parse_selector(text)
    assert found is not None
    return found.normal


@pytest.mark.parametrize(
    "text",
    [
        "JMSType = 'car' AND color = 'blue' AND weight > 2500",
        "age BETWEEN 15 AND 19",
        "NOT age NOT BETWEEN 15 AND 19",
        "Country IN ('UK', 'US', 'France')",
        "(Country = 'UK') OR (Country = 'US') OR (Country = 'France')",
        "Country NOT IN ('Peru')",
        "phone LIKE '12%3'",
        "word LIKE 'l_se'",
        "underscored LIKE '\\_%' ESCAPE '\\'",
        "word NOT LIKE 'loo_e'",
        "prop_name IS NULL",
        "word IS NOT NULL",
        "quote = 'literal''s'",
        "average = 7.",
        "JMSDeliveryMode = 'PERSISTENT'",
        "paid",
        "NOT lost",
        "paid = TRUE AND lost <> TRUE",
        "paid AND NOT lost AND color = 'blue'",
        "not PAID is not null\tAND\fweight\n>\r\n2500",
        "lost OR paid AND paid",
        "TRUE OR (FALSE AND FALSE)",
        "(weight > 2500) = paid",
    ],
)
def test_what_the_specification_says_is_true(text: str) -> None:
    """Of SEL-1."""
    assert chosen(text)


@pytest.mark.parametrize(
    "text",
    [
        "NumberOfOrders > 1",
        "NumberOfOrders = 2",
        "NumberOfOrders <> 2",
        "Country NOT IN ('UK', 'US', 'France')",
        "phone NOT LIKE '12%3'",
        "phone LIKE '12%4'",
        "absent = 1",
        "NOT absent = 1",
        "absent <> 1",
        "absent + 1 > 0 OR absent IN ('a') OR absent NOT IN ('a') OR absent LIKE '%' OR absent NOT LIKE '%'",
        "absent",
        "NOT absent",
        "Color = 'blue'",
        "color = 'Blue'",
        "lost OR lost AND paid",
        "age NOT BETWEEN 15 AND 19",
        "absent NOT BETWEEN 15 AND 19",
    ],
)
def test_what_the_specification_says_is_false_or_unknown(text: str) -> None:
    """Of SEL-1."""
    assert not chosen(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("NOT NumberOfOrders > 1", "a comparison of unlike values is false, to the letter"),
        ("NOT color", "a name alone is short for name = TRUE"),
        ("weight / 0 > 1 OR paid", "a whole number divided by zero is unknown"),
        ("weight / 0.0 > 1e308", "a double divided by zero is infinite, as in Java"),
        ("7 / 2 = 3 AND -7 / 2 = -3", "whole numbers divide to whole numbers, towards zero"),
        ("9223372036854775807 + 1 = least", "64 bits, round about, as in Java"),
        ("least / -1 = least AND - least = least", "and so here"),
        ("2147483647 + 1 = 2147483648", "but no 32: every whole number is a long"),
        ("'a' = 1 OR paid", "two literals may be unlike: false"),
        ("single = 0.1f AND single <> 0.1", "an F is the float nearest, a property of type float too"),
    ],
)
def test_what_it_leaves_open_is_so(text: str, why: str) -> None:
    assert chosen(text), why


@pytest.mark.parametrize("text", ["NOT age IN ('17')", "age NOT LIKE '1%'", "NOT (age LIKE 'a')", "NOT 1 / 0 = 1"])
def test_in_and_like_of_what_is_no_text_are_unknown(text: str) -> None:
    assert not chosen(text)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("57", "57"), ("-957", "-957"), ("+62", "62"), ("035", "29"), ("0x1d", "29"), ("0b1_1", "3"), ("00", "0"),
        ("1_000L", "1000"), ("0xFFFFFFFFFFFFFFFFL", "-1"), ("-9223372036854775808l", "-9223372036854775808"),
        ("- -9223372036854775808", "-9223372036854775808"), ("7E3", "7000.0"), ("-57.9E2", "-5790.0"), ("7.", "7.0"),
        ("95.7", "95.7"), (".5", "0.5"), ("7.d", "7.0"), ("0.1F", "0.10000000149011612"), ("0x1.8p1", "3.0"),
        ("1e-400f + 0 * a", None), ("--+-23.3", "-23.3"), ("08.5", "8.5"), ("0e0", "0.0"), ("0x.8P0D", "0.5"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_in_java(written: str, value: str | None) -> None:
    """Of SEL-1: literals."""
    if value is None:
        with pytest.raises(InvalidSelectorError, match="can hold"):
            parse_selector(f"a = {written}")
    else:
        assert normal(f"a = {written}") == f"a = {value}"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("((a=1))and(b)", "a = 1 AND b = TRUE"),
        ("a = 1 AND (b = 2 AND (c = 3 AND d = 4))", "a = 1 AND b = 2 AND c = 3 AND d = 4"),
        ("(a = 1 OR b = 2) AND c = 3 OR d = 4", "(a = 1 OR b = 2) AND c = 3 OR d = 4"),
        ("NOT (NOT a > 1)", "a > 1"),
        ("NOT (a = 1 AND b = 2)", "NOT (a = 1 AND b = 2)"),
        ("a not between b - 1 and - c", "a < b - 1 OR a > -c"),
        ("a IN ('b', 'a', 'b')", "a IN ('a', 'b')"),
        ("a LIKE 'x!%%%_!!' ESCAPE '!'", "a LIKE 'x\\%_%!' ESCAPE '\\'"),
        ("a LIKE '\\'", "a LIKE '\\'"),
        ("a NOT LIKE '%'", "NOT a LIKE '%'"),
        ("(a - b) - (c - d) = 0", "a - b - (c - d) = 0"),
        ("a * (b / c) - (d * e) > +f", "a * (b / c) - d * e > +f"),
        ("-(a + b) = - - (c)", "-(a + b) = +c"),
        ("(a + b) * -(-(-c)) = 1e22", "(a + b) * -c = 1e+22"),
        ("a = ((b) = c)", "a = (b = c)"),
        ("a IS NOT NULL", "NOT a IS NULL"),
    ],
)
def test_the_normal_form_is_the_shortest_way_to_say_it(text: str, same: str) -> None:
    assert (normal(text), normal(same)) == (same, same)
    assert parse_selector(text) == parse_selector(same)


@pytest.mark.parametrize("nothing", [None, "", " \t\f\r\n"])
def test_an_empty_text_selects_everything(nothing: str | None) -> None:
    assert parse_selector(nothing) is None


def test_what_is_no_text_is_no_selector() -> None:
    with pytest.raises(InvalidSelectorError, match="selector is 5: it is a str or None"):
        parse_selector(5)  # type: ignore[arg-type]


def test_a_selector_tells_its_text_and_the_names_it_reads() -> None:
    found = parse_selector("region='EU' and JMSPriority > 4")
    assert isinstance(found, Selector)
    assert (found.text, set(found.names)) == ("region='EU' and JMSPriority > 4", {"region", "JMSPriority"})
    assert {found: 1}[parse_selector("(region = 'EU') AND JMSPriority > 4")] == 1  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "column", "found", "expected"),
    [
        ("region == 'EU'", 9, "'='", "one = only"),
        ("region == 1st", 9, "'='", "one = only"),
        ("a =< 1", 4, "'<'", "<= for 'at most'"),
        ('a = "EU"', 5, "'\"'", "single quotes"),
        ("a = 'it", 5, "a text without an end", "a ' behind it"),
        ("a != 2", 3, "'!'", "<> for 'is not'"),
        ("a = NULL", 5, "'NULL'", "IS NULL or IS NOT NULL"),
        ("NULL = 0", 1, "'NULL'", "a name, a number"),
        ("a.b = 1", 2, "'.'", "in a name"),
        ("a\u000b= 1", 2, "'\\x0b'", "an ordinary space"),
        ("a ? b", 3, "'?'", "a name, a number"),
        ("1uncorrect IS NULL", 1, "'1uncorrect'", "a space behind it"),
        ("a = 08", 5, "'08'", "octal"),
        ("a = 9223372036854775808", 5, "'9223372036854775808'", "64 bits"),
        ("a = 5 - 9223372036854775808", 9, "'9223372036854775808'", "64 bits"),
        ("a = 99999999999999999999", 5, "'99999999999999999999'", "1E30"),
        ("a = 0x1FFFFFFFFFFFFFFFF", 5, "'0x1FFFFFFFFFFFFFFFF'", "64 bits"),
        ("a = 1e400", 5, "'1e400'", "can hold"),
        ("a = 1e39f", 5, "'1e39f'", "can hold"),
        ("a = 0x1p5000", 5, "'0x1p5000'", "can hold"),
        ("a b", 3, "'b'", "an operator or the end"),
        ("a = 1 /* c */", 8, "'*'", "no comments"),
        ("a =", 4, "the end", "a name, a number"),
        (")", 1, "')'", "a name, a number"),
        ("a AND", 6, "the end", "a name, a number"),
        ("(a = 1", 7, "the end", "a ) for the ( at column 1"),
        ("a = 1)", 6, "')'", "no ( is open"),
        ("5 AND a", 1, "'5'", "a condition"),
        ("a + 1", 1, "'a + 1'", "a condition"),
        ("'foo' > TRUE", 1, "\"'foo'\"", "by = and <> only"),
        ("a > 'foo'", 5, "\"'foo'\"", "by = and <> only"),
        ("(a OR b) + 1 = 2", 1, "'(a OR b)'", "by = and <> only"),
        ("-'a' = 1", 2, "\"'a'\"", "by = and <> only"),
        ("a BETWEEN 'foo' AND 'test'", 11, "\"'foo'\"", "by = and <> only"),
        ("a BETWEEN 1 OR b", 13, "'OR'", "AND, for the BETWEEN at column 3"),
        ("a BETWEEN 1 = 2 AND 3", 13, "'='", "AND"),
        ("(a BETWEEN 1)", 13, "')'", "AND, for the BETWEEN at column 4"),
        ("a = b = c", 7, "'='", "AND or OR before another comparison"),
        ("a = b IS NULL", 7, "'IS'", "AND or OR before another comparison"),
        ("a = NOT b", 5, "'NOT'", "(NOT ...)"),
        ("a NOT = 1", 7, "'='", "BETWEEN, IN or LIKE"),
        ("a NOT IS NULL", 7, "'IS'", "BETWEEN, IN or LIKE"),
        ("a IS TRUE", 6, "'TRUE'", "NULL or NOT NULL"),
        ("a IS NOT 5", 10, "'5'", "NULL"),
        ("'a' IS NULL", 1, "\"'a'\"", "a name before IS NULL"),
        ("-a LIKE 'x'", 1, "'-a'", "a name before LIKE"),
        ("a IN (1, 2, 3)", 7, "'1'", "a 'text'"),
        ("a NOT IN ()", 11, "')'", "a 'text'"),
        ("a IN 'b'", 6, "\"'b'\"", "a ("),
        ("a IN ('b' 'c')", 11, "\"'c'\"", "a , or a )"),
        ("a LIKE 7", 8, "'7'", "a pattern in single quotes"),
        ("a LIKE '%' ESCAPE 'ab'", 19, "\"'ab'\"", "a single character"),
        ("a LIKE '%' ESCAPE b", 19, "'b'", "a single character"),
        ("a LIKE 'x!' ESCAPE '!'", 8, "\"'x!'\"", "a character behind the escape !"),
        ("a LIKE '" + "x" * 1001 + "'", 8, "\"'" + "x" * 36 + '..."', "at most 1000 characters"),
        ("JMSXDeliveryCount > 1", 1, "'JMSXDeliveryCount'", "what is selected must not"),
        ("a = 1 AND JMSDestination = 'x'", 11, "'JMSDestination'", "JMSCorrelationID, JMSDeliveryMode, JMSMessageID"),
        ("JMSvendor = 1", 1, "'JMSvendor'", "a property or one of"),
        ("_JBM_DECODE_ERROR IS NULL", 1, "'_JBM_DECODE_ERROR'", "selecting reads none"),
        (
            "a AND (b OR (" * 40 + "c" + "))" * 40,
            105,
            "'a AND (b OR (a AND (b OR (a AND (b OR...'",
            "at most 64 levels",
        ),
    ],
)
def test_a_mistake_is_told_with_its_column_what_stands_there_and_what_could(
    text: str, column: int, found: str, expected: str
) -> None:
    """Of SEL-1: the position."""
    with pytest.raises(InvalidSelectorError) as refused:
        parse_selector(text)
    error = refused.value
    assert (error.selector, error.position, error.found) == (text, column, found)
    assert expected in str(error.expected)
    assert f"column {column}: found {found}, expected {error.expected}" in str(error)


def test_a_long_selector_is_shown_around_the_mistake() -> None:
    with pytest.raises(InvalidSelectorError) as refused:
        parse_selector("a = 1 AND\n" * 50 + "b == 2 " + "AND c = 3" * 50)
    assert str(refused.value).startswith("selector '... 1 AND\\na = 1 AND\\na = 1 AND\\na = 1 AND\\nb == 2 AND c")


@pytest.mark.parametrize(
    "name", ["$1", "_", "JMSXGroupSeq", "JMS_vendor", "JBM_x", "NULLify", "isNull", "überfällig", "a\u0301"]
)
def test_a_name_is_a_java_identifier_that_is_no_keyword(name: str) -> None:
    found = parse_selector(f"{name} = 1")
    assert found is not None
    assert found.names == {name}


@pytest.mark.parametrize("name", ["\u0661a", "a b", "\u00b7", "Null", "eScApE", "#a"])
def test_any_other_is_none(name: str) -> None:
    with pytest.raises(InvalidSelectorError):
        parse_selector(f"{name} = '1'")


@pytest.mark.parametrize(
    ("text", "position"), [("SELECT * FROM orders WHERE a = 1", 15), ("select a\nfrom q", 8), ("WHERE a = 1", 7)]
)
def test_of_a_query_the_first_odd_word_alone_was_told(text: str, position: int) -> None:
    with pytest.raises(
        InvalidSelectorError, match=r"; a selector is the condition alone, without SELECT … WHERE$"
    ) as no:
        parse_selector(text)
    assert no.value.position == position
    with pytest.raises(InvalidSelectorError, match=r"expected an operator or the end$"):
        parse_selector("a b")
    assert normal("where = 1 AND select = 2")
