"""Finished pieces of a selector and how two become one: what may stand where, how deep, in the fewest nodes.

Whether a number, a text or a condition may stand somewhere is checked here; of a name only a message knows what it is.
"""

from dataclasses import dataclass
from enum import Enum

from jbm_kafka.core.jms_errors import InvalidSelectorError
from jbm_kafka.core.selectors.literals import wrapped
from jbm_kafka.core.selectors.mistake import mistake, shown
from jbm_kafka.core.selectors.nodes import Chain, Comparison, Junction, Literal, Name, Node, Not, Signed

DEPTH_MAX = 64
"""Levels of the tree. Brackets that change nothing, and long rows of ANDs, ORs or sums, make none."""

ORDERINGS = ("<", "<=", ">", ">=")


class PieceKind(Enum):
    """The kind of value that a piece gives, as far as the text shows."""

    CONDITION = "a condition"
    NUMBER = "a number"
    TEXT = "a text"
    ANY = "what a name stands for"


@dataclass(slots=True)
class Piece:
    """A part of the tree, and where it stands."""

    node: Node
    kind: PieceKind
    depth: int
    start: int
    end: int


class Pieces:
    """Makes the pieces of one text.

    Everything raises InvalidSelectorError when a piece is not of the kind that can stand there, or grows too deep.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def literal(self, value: str | bool | int | float, start: int, end: int) -> Piece:
        """A value as it stands in the text."""
        kind = (
            PieceKind.CONDITION
            if isinstance(value, bool)
            else PieceKind.TEXT
            if isinstance(value, str)
            else PieceKind.NUMBER
        )
        return Piece(Literal(value), kind, 0, start, end)

    def negated(self, operand: Piece) -> Piece:
        """Its opposite; the opposite of an opposite is the thing itself, also when it is unknown."""
        operand = self._condition(operand)
        if isinstance(operand.node, Not):
            return Piece(operand.node.operand, PieceKind.CONDITION, operand.depth - 1, operand.start, operand.end)
        return self._joined(Not(operand.node), PieceKind.CONDITION, operand)

    def signed(self, sign: str, operand: Piece) -> Piece:
        """`-` or `+` before a number; of a literal it is part."""
        operand = self._number(operand)
        node = operand.node
        if isinstance(node, Literal):
            assert not isinstance(node.value, str), "a number, that was checked"
            value = node.value if sign == "+" else -node.value
            operand.node = Literal(wrapped(value) if isinstance(value, int) else value)
        elif isinstance(node, Signed):
            operand.node = Signed(node.is_negative != (sign == "-"), node.operand)
        else:
            return self._joined(Signed(sign == "-", node), PieceKind.NUMBER, operand)
        return operand

    def arithmetic(self, operator: str, left: Piece, right: Piece) -> Piece:
        """A sum, difference, product or quotient."""
        left, right = self._number(left), self._number(right)
        chain = left.node
        if isinstance(chain, Chain) and (chain.rest[0][0] in ("+", "-")) == (operator in ("+", "-")):
            chain.rest.append((operator, right.node))
            return self._piece(chain, PieceKind.NUMBER, max(left.depth, right.depth + 1), left.start, right.end)
        return self._joined(Chain(left.node, [(operator, right.node)]), PieceKind.NUMBER, left, right)

    def compared(self, operator: str, left: Piece, right: Piece) -> Piece:
        """A comparison."""
        if operator in ORDERINGS:
            left, right = self._number(left), self._number(right)
        return self._joined(Comparison(operator, left.node, right.node), PieceKind.CONDITION, left, right)

    def between(self, value: Piece, low: Piece, high: Piece, *, is_negated: bool) -> Piece:
        """BETWEEN as the two comparisons it is short for; NOT BETWEEN too, which is more than their opposite."""
        below, above, word = ("<", ">", "OR") if is_negated else (">=", "<=", "AND")
        return self.junction(word, self.compared(below, value, low), self.compared(above, value, high))

    def junction(self, word: str, left: Piece, right: Piece) -> Piece:
        """Conditions joined by AND, or by OR; of several joined by the same word one row."""
        parts: list[Node] = []
        depth = 0
        for piece in (self._condition(left), self._condition(right)):
            if isinstance(piece.node, Junction) and piece.node.word == word:
                # The left one, which is the longer in a row of many, is not copied for each.
                parts = [*parts, *piece.node.parts] if parts else piece.node.parts
                depth = max(depth, piece.depth)
            else:
                parts.append(piece.node)
                depth = max(depth, piece.depth + 1)
        return self._piece(Junction(word, parts), PieceKind.CONDITION, depth, left.start, right.end)

    def whole(self, piece: Piece) -> Node:
        """The tree, when the piece is all there is."""
        return self._condition(piece).node

    def name_of(self, piece: Piece, predicate: str) -> str:
        """The name that IN, LIKE or IS NULL is about."""
        if not isinstance(piece.node, Name):
            raise self._wrong_kind(piece, f"a name before {predicate}")
        return piece.node.name

    def _condition(self, piece: Piece) -> Piece:
        """A name alone is short for `name = TRUE`."""
        if isinstance(piece.node, Name):
            return self._joined(Comparison("=", piece.node, Literal(True)), PieceKind.CONDITION, piece)
        if piece.kind is not PieceKind.CONDITION:
            raise self._wrong_kind(piece, "a condition, such as name = 'text'")
        return piece

    def _number(self, piece: Piece) -> Piece:
        if piece.kind not in (PieceKind.NUMBER, PieceKind.ANY):
            raise self._wrong_kind(piece, "a number or a name; texts and conditions are compared by = and <> only")
        return piece

    def _wrong_kind(self, piece: Piece, expected: str) -> InvalidSelectorError:
        return mistake(self._text, piece.start, shown(self._text[piece.start : piece.end]), expected)

    def _joined(self, node: Node, kind: PieceKind, *of: Piece) -> Piece:
        return self._piece(node, kind, max(piece.depth for piece in of) + 1, of[0].start, of[-1].end)

    def _piece(self, node: Node, kind: PieceKind, depth: int, start: int, end: int) -> Piece:
        if depth > DEPTH_MAX:
            raise mistake(self._text, start, shown(self._text[start:end]), f"at most {DEPTH_MAX} levels of brackets")
        return Piece(node, kind, depth, start, end)
