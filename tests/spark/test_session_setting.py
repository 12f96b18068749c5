"""Settings that a session has for a while. No Spark is started."""

from types import SimpleNamespace
from typing import cast

from pyspark.sql import SparkSession

from jbm_spark.session_setting import Size, planned_for, session_setting


class _Conf(dict[str, str]):
    """Keeps settings by name, as a session does."""

    def set(self, name: str, value: str) -> None:
        self[name] = value


def test_blocks_that_run_side_by_side_leave_the_session_as_it_was() -> None:
    """Of two audits in two threads the second took what the first had set for what was there before, and left it so."""
    session = SimpleNamespace(conf=_Conf(sorts="true"))
    first, second = (session_setting(cast(SparkSession, session), "sorts", "false") for _ in range(2))
    for block in (first, second):
        block.__enter__()
        assert session.conf == {"sorts": "false"}
    first.__exit__(None, None, None)
    assert session.conf == {"sorts": "false"}
    second.__exit__(None, None, None)
    assert session.conf == {"sorts": "true"}
    with session_setting(cast(SparkSession, session), "sorts", "false"):
        assert session.conf == {"sorts": "false"}
    assert session.conf == {"sorts": "true"}


def test_what_is_small_is_interpreted_and_nothing_else_is() -> None:
    """To compile it took longer than to run it."""
    before = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    session = SimpleNamespace(conf=_Conf(before))
    for size, is_interpreted in (
        (Size(360, 4), True),
        (Size(500_000, 4), False),
        (Size(360, 400), False),
        (None, False),
    ):
        with planned_for(cast(SparkSession, session), size):
            assert (session.conf != before) is is_interpreted, size
        assert session.conf == before
