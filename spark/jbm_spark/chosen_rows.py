"""The rows of messages that a user's SQL chooses."""

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from jbm_kafka.core.wrong_values import shown
from jbm_spark.errors import OptionRefusedError


def chosen_rows(rows: DataFrame, where: str) -> DataFrame:
    """Those of which it is so.

    Raises:
        OptionRefusedError: it is no expression over the columns of `messages`.
    """
    try:
        return rows.where(where)
    except (AnalysisException, ParseException) as error:
        line = next((each for each in str(error).splitlines() if each.strip()), "")
        raise OptionRefusedError(
            f"where is {shown(where)}: it is an SQL expression over the columns of messages, such as priority > 4 or "
            f"properties['region'] = 'EU'; Spark says: {line.strip()}"
        ) from None
