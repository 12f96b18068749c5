"""Records as any producer may write them: chance headers, drawn from a few names and awkward values."""

import random

from jbm_kafka.codec.headers import OWN_HEADERS
from jbm_kafka.codec.property_header import PROPERTY_TYPES
from tests.spark.records import Record

VALUES = (
    b"", b"0", b"7", b"-1", b"+3", b"10", b"1700000000000", b"1800000000000", b"9223372036854775808", b"1.5", b"1e3",
    b"NaN", b"-Infinity", b"true", b"text", b"none", b"bytes", b"surprise", b"NON_PERSISTENT", b"PERSISTENT", b"x y",
    "ü".encode(), b"\xff\x00", b"4\n", None,
)  # fmt: skip
NAMES = (
    "a", "b", "größe", "a-b", "like", "JMSOther", "JMSXGroupID", "JMS_x", "$1", "1st", "_", "a\n", "iſ", "JBMOther",
)  # fmt: skip
HEADERS = (
    *sorted(OWN_HEADERS - {"JMSReplyTo", "JBMCodec"}), *NAMES,
    "jms.decimal.a", "jms.int.", "jms.int.a.b", "jms.", "trace-id", "jms.string.b\n", "jms.string.JBMBody",
    "jms.int.JMSType",
    *(f"jms.{kind}.{name}" for kind in sorted(PROPERTY_TYPES) for name in NAMES[:5]),
)  # fmt: skip


def any_record(chance: random.Random) -> Record:
    headers = tuple((chance.choice(HEADERS), chance.choice(VALUES)) for _ in range(chance.randint(0, 9)))
    return Record(key=chance.choice(VALUES), value=chance.choice(VALUES), headers=headers)
