"""What stays in one process when several share a run: a file, and all that shares the one Spark.

By the names of the tests, with a scheduler of xdist's own. Its marker `xdist_group` writes to an attribute that pytest
has renamed, so that with pytest 9.2 it changed nothing, and said nothing: each process had a Spark of its own.
"""

from typing import Any

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

_ONE_PROCESS = {"spark": "one Spark", "dist": "builds and installs once"}
_APART = ("docs", "simulation")
"""Not the pages of the documentation, where each has a broker of its own, nor the simulation, which has none."""


def group_of(nodeid: str) -> str:
    """The name of what a test stays together with: `tests/jms/test_auto.py::test_a` with its file."""
    file = nodeid.partition("::")[0]
    folder = file.split("/")[-2]
    return nodeid if folder in _APART else _ONE_PROCESS.get(folder, file)


class KeptTogether(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """`--dist loadscope`, by `group_of`."""

    def _split_scope(self, nodeid: str) -> Any:
        return group_of(nodeid)
