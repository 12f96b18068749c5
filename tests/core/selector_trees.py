"""Selectors as trees that hypothesis makes, written out in any style, and judged by the specification's tables.

It shares nothing with the product: values carry their Java type, logic is looked up in tables of letters, whole numbers
go through C's 64 bits, LIKE is a table of prefixes.
"""

import math
import random
from collections.abc import Mapping
from ctypes import c_int64
from fractions import Fraction

from hypothesis import strategies as st

Tree = tuple[object, ...]
"""Its first item says what it is."""

Typed = tuple[str, str | bool | int | float]
"""'long', 'double', 'text' or 'boolean', and the value."""

AND = {"TT": "T", "TF": "F", "TU": "U", "FT": "F", "FF": "F", "FU": "F", "UT": "U", "UF": "F", "UU": "U"}
OR = {"TT": "T", "TF": "T", "TU": "T", "FT": "T", "FF": "F", "FU": "U", "UT": "T", "UF": "U", "UU": "U"}
NOT = {"T": "F", "F": "T", "U": "U"}

NAMES = ("a", "b", "région", "$x_1", "JMSPriority", "JMSXGroupID", "isolated", "NULLify")
TEXTS = ("", "a", "b", "it's", "EU", "a%b", "a_b", "\\", "''", "x\ny", "ä")
_SPACES = (" ", "  ", "\t", "\n", "\f", "\r\n")

longs = st.one_of(st.integers(-3, 3), st.sampled_from([2**31, 2**63 - 1, -(2**63), 2**53 + 1]))
doubles = st.one_of(st.sampled_from([0.0, -0.0, 0.5, 2.0, -1.5, 1e300, 9007199254740992.0]), st.floats(allow_nan=False))
values = st.one_of(
    st.none(),
    st.booleans(),
    longs,
    doubles,
    st.sampled_from([math.nan, math.inf, -math.inf]),
    st.sampled_from(TEXTS),
    st.text(alphabet="ab_%\\'", max_size=6),
)
messages = st.dictionaries(st.sampled_from(NAMES), values)

_names = st.sampled_from(NAMES).map(lambda name: ("name", name))
_numbers = st.one_of(
    st.integers(0, 2**63 - 1).map(lambda n: ("number", str(n), ("long", n))),
    st.integers(0, 9).map(lambda n: ("number", f"{n}L", ("long", n))),
    st.integers(0, 255).map(lambda n: ("number", hex(n), ("long", n))),
    st.floats(0, allow_infinity=False, allow_nan=False).map(lambda x: ("number", repr(x), ("double", x))),
    st.sampled_from([("number", "2.", ("double", 2.0)), ("number", ".5d", ("double", 0.5))]),
)


def _grown(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.just("sign"), st.sampled_from("+-"), inner),
        st.tuples(st.just("arithmetic"), st.sampled_from("+-*/"), inner, inner),
    )


arithmetic: st.SearchStrategy[Tree] = st.recursive(st.one_of(_names, _numbers), _grown, max_leaves=6)
_texts = st.sampled_from(TEXTS).map(lambda text: ("text", text))
_pattern = st.text(alphabet="ab_%\\!'", max_size=6)


def _predicates() -> st.SearchStrategy[Tree]:
    negated, name = st.booleans(), st.sampled_from(NAMES)
    return st.one_of(
        st.tuples(st.just("compare"), st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), arithmetic, arithmetic),
        st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), _names, _texts),
        st.tuples(st.just("between"), negated, arithmetic, arithmetic, arithmetic),
        st.tuples(st.just("in"), negated, name, st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4)),
        st.tuples(st.just("like"), negated, name, _pattern, st.sampled_from([None, "\\", "!", "_", "'"])).filter(
            lambda tree: not _dangles(str(tree[3]), tree[4])
        ),
        st.tuples(st.just("null"), negated, name),
        st.tuples(st.just("constant"), st.booleans()),
        _names,
    )


def _combined(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
        st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), inner, inner),
    )


conditions: st.SearchStrategy[Tree] = st.recursive(_predicates(), _combined, max_leaves=8)


def _dangles(pattern: str, escape: object) -> bool:
    rest = iter(pattern)
    return any(character == escape and next(rest, None) is None for character in rest)


# -- writing one out ---------------------------------------------------------------------------------------------------

_STRENGTH = {"or": 1, "and": 2, "not": 3, "compare": 4, "between": 4, "in": 4, "like": 4, "null": 4}


def written(tree: Tree, style: random.Random) -> str:
    """One of the ways to write the tree."""
    spaced = "".join(_piece(word, style) for word in _words(tree, style))
    return spaced.strip(" ") or spaced


def _piece(word: str, style: random.Random) -> str:
    return style.choice(_SPACES) + word if style.random() < 0.9 or word[0].isalnum() or word[0] in "_$." else word


def _keyword(word: str, style: random.Random) -> str:
    return "".join(style.choice([letter.lower(), letter.upper()]) for letter in word)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _strength(tree: Tree) -> int:
    if tree[0] == "arithmetic":
        return 5 if tree[1] in ("+", "-") else 6
    return 7 if tree[0] == "sign" else _STRENGTH.get(str(tree[0]), 8)


def _inner(tree: object, style: random.Random, at_least: int) -> list[str]:
    assert isinstance(tree, tuple)
    words = _words(tree, style)
    return ["(", *words, ")"] if _strength(tree) < at_least or style.random() < 0.2 else words


def _words(tree: Tree, style: random.Random) -> list[str]:
    what, *parts = tree
    strength = _strength(tree)
    negation = [_keyword("NOT", style)] if parts and parts[0] is True else []
    match what:
        case "name" | "number":
            return [str(parts[0])]
        case "text":
            return [_quoted(str(parts[0]))]
        case "constant":
            return [_keyword(str(parts[0]), style)]
        case "sign":
            return [str(parts[0]), *_inner(parts[1], style, strength)]
        case "arithmetic":
            return [*_inner(parts[1], style, strength), str(parts[0]), *_inner(parts[2], style, strength + 1)]
        case "compare":
            return [*_inner(parts[1], style, 5), str(parts[0]), *_inner(parts[2], style, 5)]
        case "between":
            low, high = _inner(parts[2], style, 5), _inner(parts[3], style, 5)
            words = [*negation, _keyword("BETWEEN", style), *low, _keyword("AND", style), *high]
            return [*_inner(parts[1], style, 5), *words]
        case "in":
            texts = parts[2]
            assert isinstance(texts, list)
            listed = [word for text in texts for word in (_quoted(text), ",")][:-1]
            return [str(parts[1]), *negation, _keyword("IN", style), "(", *listed, ")"]
        case "like":
            escape = [] if parts[3] is None else [_keyword("ESCAPE", style), _quoted(str(parts[3]))]
            return [str(parts[1]), *negation, _keyword("LIKE", style), _quoted(str(parts[2])), *escape]
        case "null":
            return [str(parts[1]), _keyword("IS", style), *negation, _keyword("NULL", style)]
        case "not":
            return [_keyword("NOT", style), *_inner(parts[0], style, strength)]
        case _:
            left, right = (_inner(part, style, strength) for part in parts)
            return [*left, _keyword(str(what), style), *right]


# -- judging one -------------------------------------------------------------------------------------------------------


def judged(tree: object, message: Mapping[str, object]) -> str:
    """T, F or U."""
    assert isinstance(tree, tuple)
    what, *parts = tree
    match what:
        case "and":
            return AND[judged(parts[0], message) + judged(parts[1], message)]
        case "or":
            return OR[judged(parts[0], message) + judged(parts[1], message)]
        case "not":
            return NOT[judged(parts[0], message)]
        case "constant":
            return "T" if parts[0] else "F"
        case "name":
            return _compared("=", _typed(message.get(parts[0])), ("boolean", True))
        case "compare":
            return _compared(parts[0], value_of(parts[1], message), value_of(parts[2], message))
        case "between":
            value, low, high = (value_of(part, message) for part in parts[1:])
            if parts[0]:
                return OR[_compared("<", value, low) + _compared(">", value, high)]
            return AND[_compared(">=", value, low) + _compared("<=", value, high)]
        case "null":
            return "T" if (message.get(parts[1]) is None) != parts[0] else "F"
        case "in":
            is_true = _typed(message.get(parts[1])) in [("text", text) for text in parts[2]]
        case _:
            is_true = isinstance(message.get(parts[1]), str) and _like(message[parts[1]], _items(parts[2], parts[3]))
    if not isinstance(message.get(parts[1]), str):
        return "U"
    return "T" if is_true != parts[0] else "F"


def _typed(value: object) -> Typed | None:
    if value is None:
        return None
    assert isinstance(value, str | bool | int | float)
    return {bool: "boolean", int: "long", float: "double", str: "text"}[type(value)], value


def value_of(tree: object, message: Mapping[str, object]) -> Typed | None:
    """The value with its type; None is NULL."""
    assert isinstance(tree, tuple)
    match tree:
        case ("name", name):
            return _typed(message.get(name))
        case ("number", _, value):
            return value  # type: ignore[no-any-return]
        case ("text", text):
            return _typed(text)
        case ("sign", sign, inner):
            value = value_of(inner, message)
            return _calculated("*", ("long", 1 if sign == "+" else -1), value)
        case ("arithmetic", operator, left, right):
            return _calculated(operator, value_of(left, message), value_of(right, message))
    letter = judged(tree, message)
    return None if letter == "U" else ("boolean", letter == "T")


def _is_number(value: Typed | None) -> bool:
    return value is not None and value[0] in ("long", "double")


def _calculated(operator: str, left: Typed | None, right: Typed | None) -> Typed | None:
    if left is None or right is None or not _is_number(left) or not _is_number(right):
        return None
    a, b = left[1], right[1]
    if left[0] == right[0] == "long":
        assert isinstance(a, int)
        assert isinstance(b, int)
        if operator == "/":
            return None if b == 0 else ("long", c_int64(math.trunc(Fraction(a, b))).value)
        return "long", c_int64({"+": a + b, "-": a - b, "*": a * b}[operator]).value
    assert isinstance(a, int | float)
    assert isinstance(b, int | float)
    x, y = float(a), float(b)
    if operator == "/":
        return "double", _divided(x, y)
    return "double", {"+": x + y, "-": x - y, "*": x * y}[operator]


def _divided(x: float, y: float) -> float:
    if y:
        return x / y
    if x == 0 or x != x:
        return math.nan
    return math.inf if str(x).startswith("-") == str(y).startswith("-") else -math.inf


def _compared(operator: str, left: Typed | None, right: Typed | None) -> str:
    if left is None or right is None:
        return "U"
    if _is_number(left) and _is_number(right):
        if left[0] != right[0]:
            left, right = ("double", float(left[1])), ("double", float(right[1]))
    elif left[0] != right[0] or operator not in ("=", "<>"):
        return "F"
    a, b = left[1], right[1]
    if a != a or b != b:
        return "T" if operator == "<>" else "F"
    order = "=" if a == b else "<" if a < b else ">"  # type: ignore[operator]
    return "T" if order in operator else "F"


def _items(pattern: str, escape: str | None) -> list[str]:
    """Characters that stand for themselves as such, `ONE` and `MANY` for wildcards."""
    items: list[str] = []
    rest = iter(pattern)
    for character in rest:
        if character == escape:
            items.append(next(rest))
        else:
            items.append({"_": "ONE", "%": "MANY"}.get(character, character))
    return items


def _like(text: object, items: list[str]) -> bool:
    """Which prefixes of the text the items fit, item by item."""
    assert isinstance(text, str)
    ends = {0}
    for item in items:
        if item == "MANY":
            ends = set(range(min(ends), len(text) + 1)) if ends else ends
        else:
            ends = {end + 1 for end in ends if end < len(text) and item in ("ONE", text[end])}
    return len(text) in ends
