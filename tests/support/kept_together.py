"""What stays in one process when several share a run: a file, and all that shares a Spark or one secured broker.

By the names of the tests, with a scheduler of xdist's own. Its marker `xdist_group` writes to an attribute that pytest
has renamed, so that with pytest 9.2 it changed nothing, and said nothing: each process had a Spark of its own.
"""

from typing import Any
from zlib import crc32

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

_ONE_PROCESS = {"spark": "one Spark", "dist": "builds and installs once", "security": "one secured broker"}
_WRITES = {"test_same_as_codec.py", "test_write_messages.py", "test_write_stream.py"}
"""Of Spark's files those that `make test` plays and that take longest: the others have a second Spark beside it."""
_JOBS = {
    *("test_archive_job.py", "test_audit.py", "test_bookstore.py", "test_dead_letters_job.py", "test_delta_archive.py"),
    *("test_letter_retry.py", "test_load_job.py", "test_many_queues.py", "test_quality.py", "test_replay_job.py"),
    "test_stream_killed.py",
}
"""And these a third one, so that none of them alone takes half of a run."""
_STARTS_ITS_OWN = {"test_cluster.py", "test_exactly_once_killed.py"}
"""Of Spark's files the longest that use no session of their process's: what a third process may do meanwhile."""
_PAGE = "tests/docs/test_pages.py::test_the_python_of_the_page_runs[docs/{}.md]"
EXPECTED_S = {
    "the Spark of jobs": 1_000,
    "one secured broker": 400,
    "tests/bridge/test_amqp_ends.py": 390,
    "tests/amqp/test_forwarding.py": 380,
    "the Spark that writes": 370,
    "tests/deploying/test_images.py": 200,
    "tests/spark/test_cluster.py": 144,
    "tests/spark/test_exactly_once_killed.py": 143,
    "one Spark": 142,
    "tests/chaos/test_truncation_kills.py": 180,
    "tests/chaos/test_cluster_faults.py": 165,
    "tests/chaos/test_xa_postgres.py": 150,
    "tests/amqp/test_killed_servers.py": 150,
    _PAGE.format("operating"): 150,
    "tests/console/test_pages_in_browser.py": 130,
    "tests/chaos/test_drains.py": 120,
    "tests/chaos/test_xa_kills.py": 120,
    "builds and installs once": 120,
    "tests/outbox/test_killed.py": 100,
    "tests/amqp/test_transfers.py": 100,
    "tests/kafka/test_transactions.py": 95,
    "tests/kafka/test_xa_recovery.py": 85,
    "tests/console/test_console_security.py": 80,
    **{
        _PAGE.format(f"spark{each}"): 80
        for each in ("", "-archive", "-audit", "-cluster", "-events", "-format", "-load")
    },
    "tests/jms/test_subscriptions.py": 80,
    "tests/jms/test_signals.py": 80,
    "tests/chaos/test_bridge_kills.py": 130,
    "tests/chaos/test_closing_without_kafka.py": 75,
    "tests/worker/test_limits_on_a_broker.py": 75,
    "tests/console/test_messages_in_browser.py": 75,
    "tests/devbroker/test_local_broker.py": 70,
    "tests/amqp/test_artemis.py": 60,
    "tests/chaos/test_stored_sends.py": 60,
    "tests/jms/test_connecting.py": 60,
}
"""How many seconds the longest groups took beside others. They begin first, so that at the end no process is left alone
with one of them; which of two alike comes first changes nothing. Sparks and clusters of brokers, of which two that
begin at once keep all else waiting until limits of time pass, have numbers by which they begin one after the other: the
second Spark takes 800 s, the third 800, and the cluster, which takes 350 s, began with the second: both failed then."""
_APART = ("docs", "simulation")
"""Not the pages of the documentation, each of which finds an empty broker, nor the simulation, which has none."""


def group_of(nodeid: str) -> str:
    """The name of what a test stays together with: `tests/jms/test_auto.py::test_a` with its file."""
    file = nodeid.partition("::")[0]
    folder, name = file.split("/")[-2:]
    if folder == "spark" and name in _WRITES:
        return "the Spark that writes"
    if folder == "spark" and name in _JOBS:
        return "the Spark of jobs"
    if folder == "spark" and name in _STARTS_ITS_OWN:
        return file
    return nodeid if folder in _APART else _ONE_PROCESS.get(folder, file)


def is_of_part(nodeid: str, part: str) -> bool:
    """The test's group is played in the part `2/3`, which is one of three: each group is in one of them.

    The longest groups are spread so that all parts last alike, with a Spark in each; the others by their names.
    """
    number, _, parts = part.partition("/")
    group = group_of(nodeid)
    if group not in EXPECTED_S:
        return crc32(group.encode()) % int(parts) + 1 == int(number)
    lengths = [0] * int(parts)
    for each, seconds in sorted(EXPECTED_S.items(), key=lambda expected: ("Spark" not in expected[0], -expected[1])):
        shortest = lengths.index(min(lengths))
        if each == group:
            return shortest + 1 == int(number)
        lengths[shortest] += seconds
    raise AssertionError(f"{group} is in no part")


class KeptTogether(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """`--dist loadscope`, by `group_of`; a process that dies ends one test, and not the run.

    With xdist's own (3.8) the test that killed its process is handed to the next, until there is none left, or to one
    that waits for ever: a process begins its last test when it hears of another or of the end, and hears of neither.
    """

    def _split_scope(self, nodeid: str) -> Any:
        return group_of(nodeid)

    def remove_node(self, node: Any) -> str | None:
        work = self.assigned_work.pop(node)
        crashed: str | None = next((test for unit in work.values() for test in unit if not unit[test]), None)
        if crashed is not None:
            for scope, unit in work.items():
                left = {test: False for test in unit if not unit[test] and test != crashed}
                if left:
                    self.workqueue[scope] = left
            for other in self.nodes:
                self._reschedule(other)
        return crashed

    def _reschedule(self, node: Any) -> None:
        if node not in self.registered_collections:
            return  # It replaces one that died, and is asked again when it knows its tests.
        # No sooner than it must be: what is given to a process that is busy for minutes waits for it, and for no other.
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)
