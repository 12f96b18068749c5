"""Writes docs/state-machine.md from the transition table: `python -m tests.house.state_machine`."""

import ast
import inspect

from jbm_kafka.core.channel import states
from tests.house.sources import ROOT

PAGE = ROOT / "docs" / "state-machine.md"

_HEAD = """# The states of a message

With this page you know every state that a message can be in, and every move between them.

A message that a channel knows is in one state. A move that the table does not have is refused, and changes nothing
(STATE-1). An outcome, in *italics*, is final: the message has left the channel.
"""
_ORIGIN = """`python -m tests.house.state_machine` writes this page from `TRANSITIONS` in
jbm_kafka/core/channel/states.py, and a test compares.
"""
_END = """## Go on
| you want to | read |
| --- | --- |
| know what is promised of them | [promises](semantics.md#1-message-state-channels-stores-c) |
| know who decides on a move | [architecture](architecture.md) |
"""


def page() -> str:
    """The page as it should be."""
    told = _docstrings()
    rows = ["| from | move | to |", "| --- | --- | --- |"]
    for (state, move), target in states.TRANSITIONS.items():
        end = target.name if isinstance(target, states.MessageState) else f"*{target.name}*"
        rows.append(f"| {state.name} | {move.name} | {end} |")
    parts = [_HEAD, _picture(), "\n".join(rows)]
    for kind, title in ((states.MessageState, "States"), (states.Move, "Moves"), (states.Outcome, "Outcomes")):
        members = [f"| {member.name} | {told[kind.__name__, member.name]} |" for member in kind]
        parts.append("\n".join([f"## {title}", "| name | means |", "| --- | --- |", *members]))
    parts += [_ORIGIN, _END]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _picture() -> str:
    """The table for Mermaid, one arrow between two states; moves that change none are left out."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (state, move), target in states.TRANSITIONS.items():
        if state is not target:
            end = target.name if isinstance(target, states.MessageState) else "[*]"
            arrows.setdefault((state.name, end), []).append(move.name)
    lines = [f"    {start} --> {end}: {'<br>'.join(moves)}" for (start, end), moves in arrows.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> NOT_COMMITTED", "    [*] --> NEW", *lines, "```"])


def _docstrings() -> dict[tuple[str, str], str]:
    """What is written below each member of the enums; Python itself does not keep it."""
    found: dict[tuple[str, str], str] = {}
    for node in ast.parse(inspect.getsource(states)).body:
        if isinstance(node, ast.ClassDef):
            for member, text in zip(node.body, node.body[1:], strict=False):
                if (
                    isinstance(member, ast.Assign)
                    and isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                ):
                    [name] = member.targets
                    found[node.name, ast.unparse(name)] = " ".join(str(text.value.value).split())
    return found


if __name__ == "__main__":
    PAGE.write_text(page())
