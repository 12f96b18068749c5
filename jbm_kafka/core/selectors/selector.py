"""A selector, checked and compiled: which messages somebody wants (SEL-1)."""

import re
from dataclasses import dataclass, field

from jbm_kafka.core.jms_errors import InvalidSelectorError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.selectors.evaluator import Evaluate, Read, compiled
from jbm_kafka.core.selectors.mistake import mistake
from jbm_kafka.core.selectors.nodes import normal_text
from jbm_kafka.core.selectors.parser import parse
from jbm_kafka.core.wrong_values import shown

LENGTH_MAX = 65_536
"""Characters of a selector."""

_SPACES = " \t\f\r\n"
_QUERY = re.compile(r"\s*(select\s.*\sfrom\s|where\s)", re.IGNORECASE | re.DOTALL)
"""How a query of a database begins: a selector was taken for one."""
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Characters that no message can hold, and no record of a subscription."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Equal ones choose the same messages: they compare and hash by their normal form. Any thread."""

    normal: str
    """The same for selectors that differ in spaces, capitals, brackets and the like; itself a selector."""
    text: str = field(compare=False)
    """As it was given."""
    names: frozenset[str] = field(compare=False)
    """The header fields and properties it reads, and nothing else does it need of a message."""
    _evaluate: Evaluate = field(compare=False, repr=False)

    def matches(self, read: Read) -> bool:
        """Return True if a message is selected: the condition is true, not false and not unknown.

        `read` gives the value of a name: a str, bool, int of 64 bits or float, None for what the message does not have.
        It is asked for no more names than the answer needs, and maybe twice for one.
        """
        return self._evaluate(read) is True


def parse_selector(text: str | None) -> Selector | None:
    """The selector; None for None, an empty text, or only spaces.

    Raises:
        InvalidSelectorError: it is wrong; `position` is the column, from 1, `found` what stands there, and `expected`
            what could.
    """
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidSelectorError(f"selector is {shown(text)}: it is a str or None", selector=text)
    text = plain_text(text)
    if not text.strip(_SPACES):
        return None
    if len(text) > LENGTH_MAX:
        raise mistake(text, LENGTH_MAX, f"{len(text)} characters", f"at most {LENGTH_MAX}")
    found = _SURROGATE.search(text)
    if found is not None:
        raise mistake(text, found.start(), repr(found[0]), "a whole character: half of a pair has no UTF-8 form")
    try:
        node, names = parse(text)
    except InvalidSelectorError as error:
        if _QUERY.match(text) is None:
            raise
        message = f"{error}; a selector is the condition alone, without SELECT … WHERE"
        raise InvalidSelectorError(message, **error.values) from None
    return Selector(normal_text(node), text, names, compiled(node))
