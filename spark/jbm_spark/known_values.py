"""A process's knowledge of many things, such as topics, as a column: no join, and no expression for each of them."""

import json
from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def looked_up(key: Column, known: Mapping[str, object], kind: str = "string") -> Column:
    """The value of the key, of that type; null of one that is not named."""
    return F.try_element_at(F.from_json(F.lit(json.dumps(known)), f"map<string,{kind}>"), key)
