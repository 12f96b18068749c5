"""Python's garbage collector beside a sidecar (docs/decisions/0009-garbage-collector.md).

A message in flight is about ten container objects, thousands are in flight, and none of them is garbage in a cycle.
With Python's default threshold they outlive the young generations, and full collections look at the whole process
every few thousand messages: a sixth of all processor time.
"""

from __future__ import annotations

import gc

PYTHON_DEFAULT = (700, 10, 10)
YOUNG_OBJECTS = 20_000
"""Objects made before the youngest generation is looked at: what 2,000 messages need."""


def give_messages_time_to_die() -> None:
    """Raise the first threshold, unless the application has set thresholds of its own or switched collection off."""
    if gc.isenabled() and gc.get_threshold() == PYTHON_DEFAULT:
        gc.set_threshold(YOUNG_OBJECTS, *PYTHON_DEFAULT[1:])
