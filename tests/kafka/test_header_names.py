"""Headers whose names are not UTF-8, as C and C++ clients write them: what is read stays readable."""

from jbm_kafka.kafka import ConfluentKafka
from tests.conftest import MakeTopic
from tests.kafka.world import WAIT_S, Listener, consume_records, member, numbered, send_all, values
from tests.support.raw_headers import send_raw

RAW = [(b"ok", b"1"), (b"caf\xe9", b"2"), (b"JMSPriority", b"9"), (b"\xff\xfe", b"3"), (b"", b"4")]
READ = [
    ("ok", b"1"),
    ("caf\N{REPLACEMENT CHARACTER}", b"2"),
    ("JMSPriority", b"9"),
    ("\N{REPLACEMENT CHARACTER}", b"3"),
]


def test_a_header_name_that_is_not_utf_8_ends_no_member(bootstrap: str, make_topic: MakeTopic, kafka_name: str) -> None:
    """MSG-2: asking for the headers raised SystemError, and taking the name out of them ended the process."""
    kafka, topic = ConfluentKafka(bootstrap), make_topic()
    send_all(kafka, numbered(topic, [0]))
    send_raw(bootstrap, topic, key=b"k", value=b"1", headers=RAW)
    send_raw(bootstrap, topic, key=b"k", value=b"2", headers=[(b"\xc3", b"other")])
    send_all(kafka, numbered(topic, [3]))
    consumer = member(kafka, kafka_name, topic, Listener({0: 0}))
    records = consume_records(consumer, 4)
    consumer.close()
    assert values(records) == [0, 1, 2, 3]
    assert records[1].headers() == [*READ, ("", b"4")]
    assert records[2].headers() == [("\N{REPLACEMENT CHARACTER}", b"other")]


def test_a_header_name_that_is_not_utf_8_ends_no_reader(bootstrap: str, make_topic: MakeTopic) -> None:
    """Of LOG-3: browsers and commands read by position."""
    kafka, topic = ConfluentKafka(bootstrap), make_topic()
    send_raw(bootstrap, topic, key=b"k", value=b"0", headers=RAW)
    reader = kafka.log_reader()
    [record] = reader.read(topic, {0: (0, 1)}, timeout_s=WAIT_S)
    reader.close()
    assert record.headers() == [*READ, ("", b"4")]
