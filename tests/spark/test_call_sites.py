"""Our own columns are made without PySpark's notes; a user's have them again afterwards."""

import threading

import pytest
from pyspark.errors import utils
from pyspark.sql import SparkSession

from jbm_spark.call_sites import without_call_sites
from jbm_spark.session import job_session


def _are_noted() -> object:
    return utils.is_debugging_enabled()


@pytest.mark.parametrize("before", [True, False])
def test_notes_are_left_out_inside_alone_whoever_comes_first_and_leaves_last(
    monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    monkeypatch.setattr(utils, "_enable_debugging_cache", before)
    first, second = without_call_sites(), without_call_sites()
    with first:
        second.__enter__()
        assert not _are_noted()
    assert not _are_noted()
    second.__exit__(None, None, None)
    assert _are_noted() == before


def test_threads_that_overlap_leave_what_was_there(spark: SparkSession) -> None:
    before = _are_noted()
    together = threading.Barrier(8)

    def work() -> None:
        together.wait()
        for _ in range(200):
            with without_call_sites():
                assert not _are_noted()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _are_noted() == before


def test_a_job_beside_a_session_of_a_program_changes_nothing_of_it(spark: SparkSession) -> None:
    before = _are_noted()
    with job_session("beside", is_quiet=True):
        pass
    assert _are_noted() == before
    assert spark.conf.get("spark.python.sql.dataFrameDebugging.enabled", "true") == "true"
