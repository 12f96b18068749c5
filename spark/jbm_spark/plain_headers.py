"""Records whose headers plainly show, as nearly all do: what these say, without a look at each header.

Spark compiles functions of whole arrays and texts, but calls a lambda for each element, and a plan with one in it is
not compiled as a whole: that takes many times as long. So all names of a record are looked at by one pattern, and the
headers that are ours, which every producer of ours writes one behind the other, are cut out.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.codec.headers import OWN_HEADERS
from jbm_kafka.codec.identity import TOLD_BY_PROVIDER
from jbm_kafka.core.selectors.tokens import KEYWORDS

_OWN = rf"(?=J)(?:{'|'.join(sorted(OWN_HEADERS))})(?=,)"
_TYPE = r"(?:jms[.](?:string|boolean|byte|short|int|long|float|double)[.])?+"
_FIRST_LETTERS = "".join(sorted({letter for word in KEYWORDS for letter in (word[0].upper(), word[0].lower())}))
_IS_KEYWORD = rf"(?=[{_FIRST_LETTERS}])(?i:{'|'.join(sorted(KEYWORDS))}),"
"""Most names have another first letter; to compare them with each word without regard to case takes long."""
_NO_NAME = rf"(?!JMS(?![X_]))(?!{_IS_KEYWORD}|(?:{'|'.join(TOLD_BY_PROVIDER)}),)"
_END = "~"
"""No name has it."""
_PATTERN = rf"\G(?:{_OWN}|{_TYPE}{_NO_NAME}(?=[A-Za-z_$])|(?={_END}\z))({_END}|[A-Za-z0-9_$]*)(?:,|\z)"
"""One name after the other, each with a comma behind it, until one is not plain. Java is faster at `*` than at `*+`."""


_SHOWN, _BEFORE, _AFTER, _TEXTS = "out_plain_shown", "out_plain_before", "out_plain_after", "out_texts"
_ALL_NAMES, _ALL_TEXTS = "out_all_names", "out_all_texts"
KEYS = "out_keys"
"""The names of the headers, all of them."""
NAMES = "out_plain_names"
"""The column of the names as which headers that are not ours show; null where one does not plainly, or ours do not
stand together."""
TEXTS = "out_plain_texts"
"""The values of the same headers."""
ARE_PLAIN = "out_plain"
"""The column that tells if there are NAMES, and all values are text or null."""


def with_plain_headers(frame: DataFrame, headers: Column) -> DataFrame:
    """The frame with KEYS, NAMES, TEXTS and ARE_PLAIN of the records' headers."""
    # Each step is used several times by the next, and worked out once.
    step = frame.withColumns({KEYS: headers["key"], _TEXTS: headers["value"].cast("array<string>")})
    # A comma is no part of a longer character: joined by it, texts are UTF-8 if each of them is.
    names, texts = F.array_join(F.array_append(KEYS, F.lit(_END)), ","), F.array_join(_TEXTS, ",")
    step = step.withColumns({_ALL_NAMES: names, _ALL_TEXTS: texts})
    step = step.withColumn(_SHOWN, F.regexp_extract_all(_ALL_NAMES, F.lit(_PATTERN), F.lit(1)))
    shown, count = F.col(_SHOWN), F.size(KEYS)
    # A name with a comma is two, so that the mark stands elsewhere.
    are_all = F.get(shown, count) == _END
    first = F.array_position(shown, "").cast("int")
    last = count + 2 - F.array_position(F.reverse(shown), "").cast("int")
    before, after = F.greatest(first - 1, F.lit(0)), F.when(first > 0, last + 1).otherwise(1)
    stand_together = F.size(F.array_remove(shown, "")) == before + count + 2 - after
    step = step.withColumns(
        {_BEFORE: F.when(are_all & stand_together, before), _AFTER: F.when(are_all & stand_together, after)}
    )
    step = step.withColumns({NAMES: _without_ours(shown, count), TEXTS: _without_ours(F.col(_TEXTS), count)})
    return step.withColumn(ARE_PLAIN, F.col(NAMES).isNotNull() & F.is_valid_utf8(_ALL_TEXTS))


def header_bytes() -> Column:
    """The bytes of all names and values, or somewhat more."""
    lengths = F.octet_length(_ALL_NAMES) + F.octet_length(_ALL_TEXTS)
    return F.coalesce(lengths, F.lit(0))


def not_ours(headers: Column) -> Column:
    """The headers that are not ours; only where ARE_PLAIN."""
    return _without_ours(headers, F.size(KEYS))


def _without_ours(of_each: Column, count: Column) -> Column:
    behind = F.slice(of_each, F.col(_AFTER), count + 1 - F.col(_AFTER))
    return F.concat(F.slice(of_each, F.lit(1), F.col(_BEFORE)), behind)
