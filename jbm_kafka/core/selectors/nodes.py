"""A selector as a tree; its text in normal form, which is the same for selectors that say the same in other words:
other spaces and capitals, superfluous brackets, BETWEEN spelled out, the texts of an IN in another order."""

from dataclasses import dataclass
from typing import assert_never

from jbm_kafka.core.selectors.like import Pattern, pattern_text

Value = str | bool | int | float | None
"""The value of a name in a message: whole numbers of 64 bits; None is NULL, and what the message does not have."""


@dataclass(frozen=True, slots=True)
class Name:
    """A property or a header field."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that stands in the selector."""

    value: str | bool | int | float


@dataclass(frozen=True, slots=True)
class Signed:
    """`-` or `+` before a value that is no literal; `+` leaves numbers as they are and makes NULL of all else."""

    is_negative: bool
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Chain:
    """Sums and differences, or products and quotients, from left to right."""

    first: "Node"
    rest: list[tuple[str, "Node"]]
    """Operator and operand; all `+` and `-`, or all `*` and `/`."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`=` `<>` `<` `<=` `>` `>=`."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class In:
    """`name IN ('a', 'b')`."""

    name: str
    texts: tuple[str, ...]
    """In order, each once."""


@dataclass(frozen=True, slots=True)
class Like:
    """`name LIKE 'a%'`."""

    name: str
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class IsNull:
    """`name IS NULL`."""

    name: str


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT condition`; NOT IN, NOT LIKE and IS NOT NULL are the same."""

    operand: "Node"


@dataclass(frozen=True, slots=True)
class Junction:
    """Conditions joined by AND, or by OR."""

    word: str
    parts: list["Node"]


Node = Name | Literal | Signed | Chain | Comparison | In | Like | IsNull | Not | Junction

_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _VALUE = range(8)
"""How strongly a node holds together; within one that holds as strongly or more it needs brackets."""


def normal_text(node: Node) -> str:
    """The selector in normal form; read again it is the same tree."""
    return _text(node, _OR)


def _text(node: Node, at_least: int) -> str:
    text, strength = _written(node)
    return text if strength >= at_least else f"({text})"


def _written(node: Node) -> tuple[str, int]:
    match node:
        case Name(name):
            return name, _VALUE
        case Literal(value):
            return _literal(value), _VALUE
        case Signed(is_negative, operand):
            return ("-" if is_negative else "+") + _text(operand, _VALUE), _SIGN
        case Chain(first, rest):
            strength = _SUM if rest[0][0] in ("+", "-") else _PRODUCT
            texts = [f" {operator} {_text(operand, strength + 1)}" for operator, operand in rest]
            return _text(first, strength) + "".join(texts), strength
        case Comparison(operator, left, right):
            return f"{_text(left, _SUM)} {operator} {_text(right, _SUM)}", _COMPARISON
        case In(name, texts):
            return f"{name} IN ({', '.join(map(_literal, texts))})", _COMPARISON
        case Like(name, pattern):
            text, needs_escape = pattern_text(pattern)
            return f"{name} LIKE {_literal(text)}" + (" ESCAPE '\\'" if needs_escape else ""), _COMPARISON
        case IsNull(name):
            return f"{name} IS NULL", _COMPARISON
        case Not(operand):
            return f"NOT {_text(operand, _NOT)}", _NOT
        case Junction(word, parts):
            strength = _AND if word == "AND" else _OR
            return f" {word} ".join(_text(part, strength + 1) for part in parts), strength
        case _:
            assert_never(node)


def _literal(value: str | bool | int | float) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value).upper() if isinstance(value, bool) else repr(value)
