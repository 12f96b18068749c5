"""Headers as any producer may write them: ours and foreign, repeated, null, with bad numbers and bytes not UTF-8."""

from hypothesis import strategies as st

from jbm_kafka.codec.headers import OWN_HEADERS
from jbm_kafka.codec.property_header import PROPERTY_TYPES

property_names = st.sampled_from(
    ["x", "xx", "x.x", "region", "größe", "JMSXGroupID", "null", "", "jms.int.x", "JMSType"]
)
kinds = st.sampled_from(["", "jms.", "jms.decimal.", *(f"jms.{kind}." for kind in sorted(PROPERTY_TYPES))])
header_names = st.one_of(
    st.sampled_from(sorted(OWN_HEADERS)), st.builds(lambda kind, name: kind + name, kinds, property_names)
)
header_values = st.none() | st.sampled_from(
    [b"", b"1", b"0042", b"-7", b"1e999", b"true", b"many", b"NaN", b"\xff", b"queue:q", b"topic:t", b"x", b"9" * 40]
) | st.binary(max_size=8)  # fmt: skip
records_headers = st.lists(st.tuples(header_names, header_values), max_size=12)
