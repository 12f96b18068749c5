"""Which destinations an address pattern names, and which of two patterns is the more specific (REDELIVER-6).

`.` separates words; `*` is exactly one word, `#` any number of them, also none. Everything else is meant literally.
"""

from itertools import accumulate
from operator import or_

from jbm_kafka.core.destination import Destination, name_fault
from jbm_kafka.core.jms_errors import InvalidSettingError, InvalidTypeError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import shown

ONE_WORD = "*"
ANY_WORDS = "#"


def checked_pattern(pattern: object) -> str:
    """The plain text of a pattern whose wildcards are words of their own.

    Raises:
        InvalidSettingError: it is no pattern; InvalidTypeError: it is no text.
    """
    if isinstance(pattern, Destination):
        text = f"address pattern {shown(pattern)}: it is a name, not what has it; write {shown(pattern.name)}"
        raise InvalidTypeError(text, setting="pattern", value=pattern)
    if not isinstance(pattern, str) or not pattern:
        kind = InvalidSettingError if isinstance(pattern, str) else InvalidTypeError
        text = f"address pattern {shown(pattern)}: write a name, or '#' for all"
        raise kind(text, setting="pattern", value=pattern)
    fault = name_fault(pattern.replace(ONE_WORD, "x").replace(ANY_WORDS, "x"))
    if fault is not None:
        text = f"address pattern {shown(pattern)} names no destination: {fault}"
        raise InvalidSettingError(text, setting="pattern", value=pattern)
    for word in pattern.split("."):
        if len(word) > 1 and (ONE_WORD in word or ANY_WORDS in word):
            raise InvalidSettingError(
                f"address pattern {shown(pattern)}: '*' and '#' stand for whole words between dots, but one is "
                f"in {shown(word)}",
                setting="pattern",
                value=pattern,
                word=word,
            )
    return plain_text(pattern)


def pattern_of_people(pattern: object) -> str:
    """As `checked_pattern`, and no word is empty: `orders..new` is a slip, and would silently be for nobody's queue.

    A destination may have such a name, and `*` stands for its empty word, too.
    """
    text = checked_pattern(pattern)
    if "" in text.split("."):
        why = "a word between its dots is empty; leave a dot out, or write '*' for the word"
        raise InvalidSettingError(f"address pattern {shown(text)}: {why}", setting="pattern", value=text)
    return text


def matches(pattern: str, name: str) -> bool:
    """Return True if the pattern names this destination."""
    words = name.split(".")
    # reached[i]: the pattern read so far can have used up exactly the first i words.
    reached = [True] + [False] * len(words)
    for wanted in pattern.split("."):
        if wanted == ANY_WORDS:
            reached = list(accumulate(reached, or_))
        else:
            steps = (reached[i] and wanted in (ONE_WORD, word) for i, word in enumerate(words))
            reached = [False, *steps]
    return reached[-1]


Specificity = tuple[bool, int, int, tuple[int, ...], str]


def specificity(pattern: str) -> Specificity:
    """Greater for the more specific of two patterns that name the same destination; never equal for different ones.

    Without `#` beats with it. Of two without, the one that is literal where they first differ wins, so an exact name
    beats all. Of two with `#`: more literal words, then more `*`, then the one that is literal further left. What is
    equal still is decided by the text, so that the order of writing them down never matters.
    """
    words = pattern.split(".")
    ranks = tuple(0 if word == ANY_WORDS else 1 if word == ONE_WORD else 2 for word in words)
    if 0 not in ranks:
        return True, 0, 0, ranks, pattern
    return False, ranks.count(2), ranks.count(1), ranks, pattern
