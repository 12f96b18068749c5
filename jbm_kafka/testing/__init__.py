"""For tests of applications: a Kafka in memory with a clock that stands still, a real broker, and pytest's fixtures.

The page docs/testing.md tells how. Nothing is imported here: pytest loads the plugin in every project.
"""

import sys
from typing import TYPE_CHECKING

_ELSEWHERE = {
    "MemoryWorld": ": it is in jbm_kafka.testing.memory_world",
    "StoppedClock": ": it is in jbm_kafka.testing.stopped_clock",
    **dict.fromkeys(("jbm_memory", "jbm_broker"), ": it is a fixture of pytest; name it as an argument of the test"),
}

if not TYPE_CHECKING:  # a type checker would take it for "any name will do"

    def __getattr__(name: str) -> object:
        """Refuses a name that is not there, and tells where it is."""
        from jbm_kafka.core.missing_name import missing_name

        raise missing_name("jbm_kafka.testing", name, _ELSEWHERE.get(name, ""), sys._getframe(1))
