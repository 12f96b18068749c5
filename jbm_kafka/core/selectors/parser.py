"""From tokens to a tree, by strength: brackets, signs, `* /`, `+ -`, comparisons, NOT, AND, OR.

Operators wait on a stack of our own until a weaker one follows, so that no depth of brackets can use up Python's.
"""

from dataclasses import dataclass

from jbm_kafka.core.jms_errors import InvalidSelectorError
from jbm_kafka.core.selectors.like import PATTERN_MAX, parse_pattern
from jbm_kafka.core.selectors.literals import BEYOND_LONG, LONG_MAX
from jbm_kafka.core.selectors.mistake import mistake, shown
from jbm_kafka.core.selectors.nodes import In, IsNull, Like, Name, Node
from jbm_kafka.core.selectors.pieces import ORDERINGS, Piece, PieceKind, Pieces
from jbm_kafka.core.selectors.tokens import Token, TokenKind, tokens_of

HEADER_FIELDS = frozenset(
    ["JMSDeliveryMode", "JMSPriority", "JMSMessageID", "JMSTimestamp", "JMSCorrelationID", "JMSType"]
)
"""The header fields that a selector may read; `JMSX...` and `JMS_...` are properties."""

_REFUSED_NAMES = {
    "JMSXDeliveryCount": "another name: how often a message was delivered changes, and what is selected must not",
    "_JBM_DECODE_ERROR": "another name: whether a body can be read is not known before, and selecting reads none",
}

_VALUE = "a name, a number, a 'text', TRUE or FALSE"
_OPERATOR = "an operator or the end"
_COMPARISONS = ("=", "<>", *ORDERINGS)
_HINTS = {
    ("=", "="): "one = only",
    ("=", "<"): "<= for 'at most'",
    ("=", ">"): ">= for 'at least'",
    ("/", "*"): "a value; there are no comments",
}

_BRACKET, _OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN = range(8)
_STRENGTHS = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(_COMPARISONS, _COMPARISON),
    "+": _SUM,
    "-": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
}


@dataclass(slots=True)
class _Operator:
    """An operator that waits for its right side."""

    symbol: str
    strength: int
    start: int
    is_negated: bool = False
    waits_for_and: bool = False
    """A BETWEEN whose AND did not come yet."""


def parse(text: str) -> tuple[Node, frozenset[str]]:
    """The condition, and the names it reads.

    Raises:
        InvalidSelectorError: the text is not a condition.
    """
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._source = tokens_of(text)
        self._tokens: list[Token] = []
        self._next = 0
        self._pieces = Pieces(text)
        self._operands: list[Piece] = []
        self._operators: list[_Operator] = []
        self._names: set[str] = set()

    def parse(self) -> tuple[Node, frozenset[str]]:
        """The whole text."""
        expects_value = True
        token = self._take()
        while expects_value or token.kind is not TokenKind.END:
            expects_value = self._at_value(token) if expects_value else self._behind_value(token)
            token = self._take()
        self._reduce(_OR, token)
        if self._operators:
            raise self._mistake(token, f"a ) for the ( at column {self._operators[-1].start + 1}")
        return self._pieces.whole(self._operands.pop()), frozenset(self._names)

    def _peek(self) -> Token:
        if self._next == len(self._tokens):
            self._tokens.append(next(self._source))
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._peek()
        self._next += 1
        return token

    # -- where a value is expected: True when it still is behind the token ----------------------------------------

    def _at_value(self, token: Token) -> bool:
        if token.is_one_of("(", "+", "-"):
            strength = _BRACKET if token.value == "(" else _SIGN
            self._operators.append(_Operator(str(token.value), strength, token.start))
            return True
        if token.is_one_of("NOT"):
            if self._top_strength() > _NOT:
                raise self._mistake(token, f"{_VALUE}; a condition takes brackets here: (NOT ...)")
            self._operators.append(_Operator("NOT", _NOT, token.start))
            return True
        if token.kind is TokenKind.NAME:
            piece = Piece(Name(self._checked_name(token)), PieceKind.ANY, 0, token.start, token.end)
        elif token.is_one_of("TRUE", "FALSE"):
            piece = self._pieces.literal(token.value == "TRUE", token.start, token.end)
        elif token.kind in (TokenKind.TEXT, TokenKind.NUMBER):
            if type(token.value) is int and token.value == BEYOND_LONG and not self._is_behind_minus():
                raise self._mistake(token, f"a whole number of 64 bits, at most {LONG_MAX}")
            piece = self._pieces.literal(token.value, token.start, token.end)
        else:
            raise self._no_value(token)
        self._operands.append(piece)
        return False

    def _no_value(self, token: Token) -> InvalidSelectorError:
        before = self._tokens[self._next - 2] if self._next > 1 else token
        hint = _HINTS.get((str(before.value), str(token.value)))
        if token.is_one_of("NULL") and before.is_one_of(*_COMPARISONS):
            hint = "IS NULL or IS NOT NULL, as nothing equals NULL"
        return self._mistake(token, hint or _VALUE)

    def _is_behind_minus(self) -> bool:
        return bool(self._operators) and (self._operators[-1].symbol, self._operators[-1].strength) == ("-", _SIGN)

    def _checked_name(self, token: Token) -> str:
        name = str(token.value)
        if name in _REFUSED_NAMES:
            raise self._mistake(token, _REFUSED_NAMES[name])
        if name.startswith("JMS") and not name.startswith(("JMSX", "JMS_")) and name not in HEADER_FIELDS:
            raise self._mistake(token, f"a property or one of {', '.join(sorted(HEADER_FIELDS))}")
        self._names.add(name)
        return name

    # -- behind a value: True when another one is expected ---------------------------------------------------------

    def _behind_value(self, token: Token) -> bool:
        if token.is_one_of(")"):
            self._close(token)
            return False
        if token.is_one_of("AND") and self._completes_between(token):
            return True
        if token.is_one_of(*_STRENGTHS):
            strength = _STRENGTHS[str(token.value)]
            if strength == _COMPARISON:
                self._begin_comparison(token)
            else:
                self._reduce(strength, token)
            self._operators.append(_Operator(str(token.value), strength, token.start))
            return True
        return self._predicate(token)

    def _predicate(self, token: Token) -> bool:
        is_negated = token.is_one_of("NOT")
        predicate = self._take() if is_negated else token
        if predicate.is_one_of("BETWEEN"):
            self._begin_comparison(token)
            self._operators.append(_Operator("BETWEEN", _COMPARISON, token.start, is_negated, waits_for_and=True))
            return True
        if not predicate.is_one_of("IN", "LIKE") and (is_negated or not predicate.is_one_of("IS")):
            raise self._mistake(predicate, "BETWEEN, IN or LIKE behind NOT" if is_negated else _OPERATOR)
        self._begin_comparison(token)
        piece = self._operands.pop()
        name = self._pieces.name_of(piece, "IS NULL" if predicate.value == "IS" else str(predicate.value))
        node: Node
        if predicate.value == "IN":
            node = self._in(name)
        elif predicate.value == "LIKE":
            node = self._like(name)
        else:
            node, is_negated = IsNull(name), self._is_not_null()
        condition = Piece(node, PieceKind.CONDITION, 0, piece.start, self._tokens[self._next - 1].end)
        self._operands.append(self._pieces.negated(condition) if is_negated else condition)
        return False

    def _close(self, token: Token) -> None:
        self._reduce(_OR, token)
        if not self._operators:
            raise self._mistake(token, f"{_OPERATOR}, as no ( is open")
        self._operands[-1].start = self._operators.pop().start
        self._operands[-1].end = token.end

    def _completes_between(self, token: Token) -> bool:
        """Return True if this AND is the one that a BETWEEN waits for; if so it waits no more."""
        waiting = next((operator for operator in reversed(self._operators) if operator.strength <= _COMPARISON), None)
        if waiting is None or not waiting.waits_for_and:
            return False
        self._reduce(_SUM, token)
        waiting.waits_for_and = False
        return True

    def _begin_comparison(self, token: Token) -> None:
        self._reduce(_SUM, token)
        if self._top_strength() == _COMPARISON:
            waits = self._operators[-1].waits_for_and
            raise self._mistake(token, "AND" if waits else "AND or OR before another comparison, or brackets")

    def _is_not_null(self) -> bool:
        token = self._take()
        is_negated = token.is_one_of("NOT")
        if is_negated:
            token = self._take()
        if not token.is_one_of("NULL"):
            raise self._mistake(token, "NULL" if is_negated else "NULL or NOT NULL; any other value is compared by =")
        return is_negated

    def _in(self, name: str) -> In:
        bracket = self._take()
        if not bracket.is_one_of("("):
            raise self._mistake(bracket, "a ( and texts")
        texts: set[str] = set()
        while True:
            texts.add(self._expect_text("a 'text', as IN is for texts"))
            token = self._take()
            if token.is_one_of(")"):
                return In(name, tuple(sorted(texts)))
            if not token.is_one_of(","):
                raise self._mistake(token, "a , or a )")

    def _like(self, name: str) -> Like:
        text = self._expect_text("a pattern in single quotes")
        written = self._tokens[self._next - 1]
        if len(text) > PATTERN_MAX:
            raise self._mistake(written, f"a pattern of at most {PATTERN_MAX} characters")
        escape: str | None = None
        if self._peek().is_one_of("ESCAPE"):
            self._take()
            escape = self._expect_text("a single character in single quotes")
            if len(escape) != 1:
                raise self._mistake(self._tokens[self._next - 1], "a single character in single quotes")
        try:
            return Like(name, parse_pattern(text, escape))
        except ValueError as fault:
            raise self._mistake(written, str(fault)) from None

    def _expect_text(self, expected: str) -> str:
        token = self._take()
        if token.kind is not TokenKind.TEXT:
            raise self._mistake(token, expected)
        return str(token.value)

    # -- what waited is applied ------------------------------------------------------------------------------------

    def _top_strength(self) -> int:
        return self._operators[-1].strength if self._operators else _BRACKET

    def _reduce(self, at_least: int, token: Token) -> None:
        """Apply what waits and holds as strongly or more."""
        while self._top_strength() >= at_least:
            operator = self._operators.pop()
            if operator.waits_for_and:
                raise self._mistake(token, f"AND, for the BETWEEN at column {operator.start + 1}")
            right = self._operands.pop()
            self._operands.append(self._applied(operator, right))

    def _applied(self, operator: _Operator, right: Piece) -> Piece:
        pieces, symbol = self._pieces, operator.symbol
        if operator.strength in (_SIGN, _NOT):
            piece = pieces.negated(right) if operator.strength == _NOT else pieces.signed(symbol, right)
            piece.start = operator.start
            return piece
        left = self._operands.pop()
        if symbol == "BETWEEN":
            return pieces.between(self._operands.pop(), left, right, is_negated=operator.is_negated)
        if operator.strength == _COMPARISON:
            return pieces.compared(symbol, left, right)
        if operator.strength in (_SUM, _PRODUCT):
            return pieces.arithmetic(symbol, left, right)
        return pieces.junction(symbol, left, right)

    def _mistake(self, token: Token, expected: str) -> InvalidSelectorError:
        at_end = token.kind is TokenKind.END
        return mistake(
            self._text, token.start, "the end" if at_end else shown(self._text[token.start : token.end]), expected
        )
