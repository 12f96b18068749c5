"""The id of what a group's positions are about: a topic's, and of a subscription its incarnation behind a slash.

Kafka's client writes ids of topics in base64, so every fourth has a slash of its own.
"""

import re

INCARNATION = "/[0-9a-f]{13}([0-9a-f]{3})?$"
"""What is behind a topic's id; a pattern of Java's, too. Operators and imported files make longer ones."""


def incarnation_of(chance: float) -> str:
    """Return a new subscription's incarnation; the chance is from 0 on and below 1."""
    return f"{int(chance * 2**52):013x}"


def log_id(topic_id: str, incarnation: str) -> str:
    """Return the id of the part of a topic's log since a subscription was made; a queue has no incarnation."""
    return f"{topic_id}/{incarnation}" if incarnation else topic_id


def topic_id_of(log_id: str) -> str:
    """Return the id of its topic."""
    return re.sub(INCARNATION, "", log_id)
