"""The words of a selector: names, keywords, texts, numbers and symbols, each with its place."""

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple
from unicodedata import category

from jbm_kafka.core.jms_errors import InvalidSelectorError
from jbm_kafka.core.selectors.literals import parse_number
from jbm_kafka.core.selectors.mistake import mistake, shown

KEYWORDS = frozenset(["NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"])
"""No property may have one of these names, in whatever case."""

_SPACE = re.compile(r"[ \t\f\r\n]*")
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
# Whatever sticks to a number, so that `1st` is one mistake; a sign belongs to it behind an exponent's letter only.
_NUMBER = re.compile(r"0[xX](?:[pP][+-]|[\w$.])*|(?:[0-9]|\.[0-9])(?:[eE][+-]|[\w$.])*")
_TEXT = re.compile(r"'((?:[^']|'')*+)'")
_SYMBOL = re.compile(r"<>|<=|>=|[-+*/=<>(),]")

# Character.isJavaIdentifierStart and isJavaIdentifierPart, by Unicode's categories.
_STARTS = frozenset(["Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"])
_PARTS = _STARTS | {"Nd", "Mn", "Mc", "Cf"}
_IGNORED = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x9f]")

_HINTS = {
    '"': "single quotes around a text: 'EU'",
    "!": "<> for 'is not', or NOT",
    "&": "AND",
    "|": "OR",
    "%": "an operator; the remainder of a division is not among them",
    ".": "letters, digits, _ and $ in a name",
    ";": "nothing behind the condition",
}


class TokenKind(Enum):
    """The kind of a token."""

    NAME = "a name"
    KEYWORD = "a keyword"
    TEXT = "a text"
    NUMBER = "a number"
    SYMBOL = "a symbol"
    END = "the end"


class Token(NamedTuple):
    """One word, from `start` to before `end`."""

    kind: TokenKind
    value: str | int | float
    """The token's value: a keyword in capitals, a text without its quotes."""
    start: int
    end: int

    def is_one_of(self, *words: str) -> bool:
        """Return True if it is one of these keywords or symbols."""
        return self.kind in (TokenKind.KEYWORD, TokenKind.SYMBOL) and self.value in words


def tokens_of(text: str) -> Iterator[Token]:
    """All tokens, the end last; one at a time, so that the first mistake is raised, of whatever kind.

    Raises:
        InvalidSelectorError: what comes next cannot begin one.
    """
    position = _past_space(text, 0)
    while position < len(text):
        token = _token(text, position)
        yield token
        position = _past_space(text, token.end)
    yield Token(TokenKind.END, "", len(text), len(text))


def _past_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    assert space is not None
    return space.end()


def _token(text: str, start: int) -> Token:
    if (number := _NUMBER.match(text, start)) is not None:
        try:
            return Token(TokenKind.NUMBER, parse_number(number[0]), start, number.end())
        except ValueError as fault:
            raise mistake(text, start, shown(number[0]), str(fault)) from None
    if (symbol := _SYMBOL.match(text, start)) is not None:
        return Token(TokenKind.SYMBOL, symbol[0], start, symbol.end())
    if (quoted := _TEXT.match(text, start)) is not None:
        return Token(TokenKind.TEXT, quoted[1].replace("''", "'"), start, quoted.end())
    end = _end_of_word(text, start)
    if end == start:
        raise _stray(text, start)
    word = text[start:end]
    # In capitals some foreign letters are ASCII.
    if word.isascii() and word.upper() in KEYWORDS:
        return Token(TokenKind.KEYWORD, word.upper(), start, end)
    return Token(TokenKind.NAME, word, start, end)


def _end_of_word(text: str, start: int) -> int:
    """Where the name or keyword ends that begins here; `start` when none does."""
    plain = _WORD.match(text, start)
    position = start if plain is None else plain.end()
    while position < len(text) and _may_stand_in_a_word(text[position], is_first=position == start):
        position += 1
    return position


def _may_stand_in_a_word(character: str, *, is_first: bool) -> bool:
    if is_first:
        return category(character) in _STARTS
    return category(character) in _PARTS or _IGNORED.match(character) is not None


def _stray(text: str, start: int) -> InvalidSelectorError:
    found = text[start]
    if found == "'":
        return mistake(text, start, "a text without an end", "a ' behind it; a ' within a text is written ''")
    if found.isspace():
        return mistake(text, start, shown(found), "an ordinary space")
    return mistake(text, start, shown(found), _HINTS.get(found, "a name, a number, a 'text' or an operator"))
