"""The command that installs PySpark in the version that jbm-kafka's Spark part needs. Imports nothing of PySpark."""

import re
from importlib import metadata

_NEEDED = re.compile(r"(pyspark)\s*\(?(==[^;)\s]+)")
"""As in `pyspark==4.2.0; extra == "spark"`."""
WITH_PACKAGE = "pip install 'jbm-kafka[spark]'"
"""All that is known where the package was not installed."""


def install_hint() -> str:
    """Return what to type: PySpark alone, in the version of our jars, as the package may have come as a file."""
    try:
        requirements = metadata.requires("jbm-kafka") or []
    except metadata.PackageNotFoundError:
        requirements = []
    found = (_NEEDED.match(each) for each in requirements)
    return next((f"pip install '{each[1]}{each[2]}'" for each in found if each is not None), WITH_PACKAGE)
