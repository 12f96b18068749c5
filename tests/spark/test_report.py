"""The dead-letter report as table and as JSON. No Spark is started."""

from jbm_spark.jobs.report import DeadLetterGroup, DeadLetterReport, ErrorGroup, QueueContent

GROUP = DeadLetterGroup(
    reason="max-delivery-attempts",
    destination="queue:orders",
    count=4,
    attempts_max=3,
    first_at_ms=1_700_000_000_000,
    last_at_ms=1_700_000_060_000,
    example_ids=("ID:a:1", "ID:a:2", "ID:a:3"),
    example_units=("joe",),
)
FOREIGN = DeadLetterGroup(
    reason=None,
    destination=None,
    count=1,
    attempts_max=None,
    first_at_ms=-(2**63),
    last_at_ms=2**63 - 1,
    example_ids=("ID:kafka:DLQ:0:7",),
    example_units=(),
)
QUEUE = QueueContent(
    name="orders", count=3, unit_count=2, by_body_kind=(("text", 2), ("none", 1)), largest_units=(("a\x1b[2J", 2),)
)
ERROR = ErrorGroup(
    error="ValueError", destination="queue:orders", count=2, first_at_ms=1_700_000_000_000,
    last_at_ms=1_700_000_060_000, example="ValueError: \x1b[2J", example_id="ID:a:1",
)  # fmt: skip
REPORT = DeadLetterReport(
    dead_letters="DLQ", count=5, groups=(GROUP, FOREIGN), errors=(ERROR,), ages=(("earlier", 5),), queue=QUEUE
)


def test_the_table_tells_every_group_in_aligned_columns() -> None:
    lines = REPORT.text().splitlines()
    assert lines[0] == "DLQ: 5 dead letters"
    expected = "max-delivery-attempts queue:orders 4 3 2023-11-14 22:13:20 2023-11-14 22:14:20"
    assert lines[3].split() == [*expected.split(), "joe,", "...", "ID:a:1,", "ID:a:2,", "ID:a:3,", "..."]
    assert "(not said)" in lines[4]
    assert lines[3].index("ID:a:1") == lines[4].index("ID:kafka")


def test_an_instant_beyond_the_calendar_is_shown_as_its_number() -> None:
    assert f"{2**63 - 1} ms" in REPORT.text()


def test_what_a_producer_wrote_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in REPORT.text()


def test_an_empty_dead_letter_address_is_one_line() -> None:
    assert DeadLetterReport(dead_letters="DLQ", count=0, groups=()).text() == "DLQ: 0 dead letters"


def test_the_queue_is_told_by_body_kind_and_largest_unit() -> None:
    text = REPORT.text()
    assert "orders: 3 messages in the topic" in text
    assert "2 units; by body: text 2, none 1" in text


def test_errors_and_ages_are_tables_of_their_own() -> None:
    lines = [line.split() for line in REPORT.text().splitlines()]
    assert ["ValueError", "queue:orders", "2"] in [line[:3] for line in lines]
    assert ["earlier", "5"] in lines
