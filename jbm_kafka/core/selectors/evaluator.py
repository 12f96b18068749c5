"""From a tree to a function over what a message has, in SQL's logic of three values: true, false, unknown.

True, False and None stand for them. A value that is NULL, or no number where one is needed, makes what is made of it
unknown; a comparison of unlike values is false.
"""

import operator
from collections.abc import Callable, Sequence
from math import copysign, inf, isnan, nan
from typing import Any, assert_never, cast

from jbm_kafka.core.selectors.like import matcher
from jbm_kafka.core.selectors.literals import wrapped
from jbm_kafka.core.selectors.nodes import (
    Chain,
    Comparison,
    In,
    IsNull,
    Junction,
    Like,
    Literal,
    Name,
    Node,
    Not,
    Signed,
    Value,
)

Read = Callable[[str], Value]
"""Gives a name's value. Its type is one of those of `Value` itself, no subclass."""

Evaluate = Callable[[Read], Value]

_Compare = Callable[[Any, Any], bool]
_COMPARE: dict[str, _Compare] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_Calculate = Callable[[int | float, int | float], int | float | None]
_NUMBERS = (int, float)


def compiled(node: Node) -> Evaluate:
    """The function: of a condition it gives True, False or None."""
    match node:
        case Name(name):
            return lambda read: read(name)
        case Literal(value):
            return lambda _: value
        case Signed(is_negative, operand):
            return _signed(compiled(operand), is_negative)
        case Chain(first, rest):
            return _chain(compiled(first), [(_ARITHMETIC[symbol], compiled(part)) for symbol, part in rest])
        case Comparison(symbol, Name(name), Literal(value)):
            return _name_and_literal(name, symbol, value)
        case Comparison(symbol, left, right):
            return _comparison(compiled(left), symbol, compiled(right))
        case In(name, texts):
            chosen = frozenset(texts)
            return lambda read: held in chosen if isinstance(held := read(name), str) else None
        case Like(name, pattern):
            is_like = matcher(pattern)
            return lambda read: is_like(held) if isinstance(held := read(name), str) else None
        case IsNull(name):
            return lambda read: read(name) is None
        case Not(operand):
            return _opposite(compiled(operand))
        case Junction(word, parts):
            return _junction([compiled(part) for part in parts], decisive=word == "OR")
        case _:
            assert_never(node)


def _junction(parts: Sequence[Evaluate], *, decisive: bool) -> Evaluate:
    """One FALSE decides an AND, one TRUE an OR; else one unknown makes it unknown."""

    def evaluate(read: Read) -> Value:
        answer: Value = not decisive
        for part in parts:
            found = part(read)
            if found is decisive:
                return found
            if found is None:
                answer = None
        return answer

    return evaluate


def _opposite(condition: Evaluate) -> Evaluate:
    def evaluate(read: Read) -> Value:
        found = condition(read)
        return None if found is None else not found

    return evaluate


def _name_and_literal(name: str, symbol: str, literal: str | bool | int | float) -> Evaluate:
    """Return what nearly every comparison is: two thirds of the time of the general one."""
    kind, compare = type(literal), _COMPARE[symbol]

    def evaluate(read: Read) -> Value:
        value = read(name)
        if type(value) is kind:
            return compare(value, literal)
        return None if value is None else _compare_unlike(compare, value, literal)

    return evaluate


def _comparison(left: Evaluate, symbol: str, right: Evaluate) -> Evaluate:
    compare, is_ordering = _COMPARE[symbol], symbol not in ("=", "<>")

    def evaluate(read: Read) -> Value:
        a, b = left(read), right(read)
        if a is None or b is None:
            return None
        kind = type(a)
        if kind is not type(b):
            return _compare_unlike(compare, a, b)
        # Only here can texts and booleans come to be put in order: literals of them are refused.
        return False if is_ordering and kind not in _NUMBERS else compare(a, b)

    return evaluate


def _compare_unlike(compare: _Compare, a: Any, b: Any) -> bool:
    """Values of two types: a whole number and a double as two doubles, as in Java; false for all others."""
    return type(a) in _NUMBERS and type(b) in _NUMBERS and compare(float(a), float(b))


def _signed(operand: Evaluate, is_negative: bool) -> Evaluate:
    def evaluate(read: Read) -> Value:
        value = operand(read)
        if type(value) is int:
            return wrapped(-value) if is_negative else value
        if type(value) is float:
            return -value if is_negative else value
        return None

    return evaluate


def _chain(first: Evaluate, rest: Sequence[tuple[_Calculate, Evaluate]]) -> Evaluate:
    def evaluate(read: Read) -> Value:
        value = first(read)
        for calculate, operand in rest:
            other = operand(read)
            if type(value) not in _NUMBERS or type(other) not in _NUMBERS:
                return None
            value = calculate(cast(float, value), cast(float, other))
        return value

    return evaluate


def _wrapping(calculate: _Calculate) -> _Calculate:
    """The calculation in Java's arithmetic: whole numbers of 64 bits, what is beyond begins again at the other end."""

    def evaluate(a: int | float, b: int | float) -> int | float | None:
        result = calculate(a, b)
        return wrapped(result) if type(result) is int else result

    return evaluate


def _quotient(a: int | float, b: int | float) -> int | float | None:
    """Return the quotient, of whole numbers without the remainder, towards zero; by zero, where Java raises, it is
    unknown."""
    if type(a) is int and type(b) is int:
        if b == 0:
            return None
        whole = abs(a) // abs(b)
        return whole if (a < 0) == (b < 0) else -whole
    a, b = float(a), float(b)
    if b != 0:
        return a / b
    return nan if a == 0 or isnan(a) else copysign(inf, a) * copysign(1.0, b)


_ARITHMETIC = {
    "+": _wrapping(operator.add),
    "-": _wrapping(operator.sub),
    "*": _wrapping(operator.mul),
    "/": _wrapping(_quotient),
}
