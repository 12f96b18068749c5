"""Spark reads jbm-kafka's topics: messages as typed columns, and the jobs operators want.

Spark only reads (and, later, produces) messages. It never acknowledges one and never writes a changelog, so a job
can run beside live receivers at any time. Needs the extra `spark`: PySpark.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

_ELSEWHERE = {
    **dict.fromkeys(("build_session", "needed_settings"), "jbm_spark.session"),
    **dict.fromkeys(("message_stream", "write_messages", "write_stream", "wait_until_done"), "jbm_spark.messages"),
    "property_column": "jbm_spark.columns",
}
"""What people look for here, errors aside. Not imported from there: nothing here needs PySpark."""

if not TYPE_CHECKING:  # a type checker would take it for "any name will do"

    def __getattr__(name: str) -> object:
        """Refuses a name that is not there, and tells where it is."""
        from jbm_kafka.core.missing_name import missing_name

        raise missing_name("jbm_spark", name, _where_it_is(name), sys._getframe(1))

    def _where_it_is(name: str) -> str:
        """What is said behind the name; nothing of one that nobody knows, nor of a module that is not loaded yet."""
        if name.startswith("_"):
            return ""
        if name in _ELSEWHERE:
            return f": it is in {_ELSEWHERE[name]}"
        # By its name: `from jbm_spark import errors` would ask here for `errors`.
        if hasattr(import_module("jbm_spark.errors"), name) and name.endswith(("Error", "Warning")):
            return ": it is in jbm_spark.errors"
        from jbm_kafka.core.likely_name import with_likely_name

        return with_likely_name("", name, _ELSEWHERE)
