"""`send`, `receive`, `browse`: messages in and out of a queue by command."""

import base64
import io
import json
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.ports import Outgoing
from jbm_kafka.providers.in_memory import World
from tests.cli.conftest import Run, Said, write


def _rows(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_what_is_sent_is_received_with_unit_and_typed_properties(cli: Run, queue: str) -> None:
    options = ("--unit", "joe", "--property", "region=EU", "--property", "qty:int=3", "--property", "ratio:double=NaN")
    said = cli("send", queue, "--text", "zwölf\tBücher", *options, "--property", "last:null=", "--priority", "7")
    assert (said.code, said.out) == (0, f"1 sent to queue:{queue}\n")
    (row,) = _rows(cli("receive", queue, "--json").out)
    assert (row["body"], row["unit_of_order"], row["priority"]) == ("zwölf\tBücher", "joe", 7)
    assert row["properties"] == {"region": "EU", "qty": 3, "ratio": "NaN", "last": None}
    assert (row["delivery_count"], row["redelivered"], row["kafka"]["topic"]) == (1, False, queue)


def test_lines_become_messages_and_all_of_them_are_received(cli: Run, queue: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"one\r\ntwo\n\nfour")
    assert cli("send", queue, str(file), "--lines", "--unit", "joe").code == 0
    said = cli("receive", queue, "--count", "0", "--timeout", "0.5")
    assert (said.code, said.out) == (0, "one\ntwo\n\nfour\n")
    assert cli("receive", queue, "--count", "0", "--timeout", "0.2").out == ""


def test_standard_input_is_one_message_and_bytes_stay_bytes(
    cli: Run, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\x00two\nlines")))
    assert cli("send", queue, "-").code == 0
    (row,) = _rows(cli("receive", queue, "--json").out)
    assert base64.b64decode(row["body_base64"]) == b"\xff\x00two\nlines"


def test_the_same_message_is_sent_as_often_as_asked(cli: Run, queue: str) -> None:
    assert json.loads(cli("send", queue, "--text", "x", "--count", "250", "--json").out)["sent"] == 250
    assert cli("receive", queue, "--count", "250").out == "x\n" * 250


def test_too_few_messages_are_a_failure_and_what_was_printed_is_settled(cli: Run, queue: str) -> None:
    cli("send", queue, "--text", "only")
    said = cli("receive", queue, "--count", "2", "--timeout", "0.3")
    assert (said.code, said.out) == (1, "only\n")
    assert said.err == f"jbm-kafka: queue:{queue}: only 1 of 2 messages came within 0.3 s\n"
    said = cli("receive", queue, "--timeout", "0.3")
    assert (said.code, said.err) == (1, f"jbm-kafka: queue:{queue}: no message came within 0.3 s\n")


def test_one_unit_is_received_and_the_others_stay_as_they_were(cli: Run, queue: str) -> None:
    for text, unit in (("a1", "ann"), ("j1", "joe"), ("a2", "ann"), ("j2", "joe"), ("j3", "joe"), ("b1", "bob")):
        cli("send", queue, "--text", text, "--unit", unit)
    cli("send", queue, "--text", "alone")
    said = cli("receive", queue, "--unit", "nobody", "--timeout", "0.3")
    assert (said.code, said.out) == (1, "")
    assert said.err == f"jbm-kafka: queue:{queue}: no message of unit 'nobody' came within 0.3 s\n"
    assert cli("receive", queue, "--unit", "joe", "--count", "2").out == "j1\nj2\n"
    assert cli("receive", queue, "--unit", "joe", "--count", "0", "--timeout", "0.3").out == "j3\n"
    rows = _rows(cli("receive", queue, "--count", "0", "--timeout", "0.3", "--json").out)
    assert sorted(row["body"] for row in rows) == ["a1", "a2", "alone", "b1"]
    assert [row["body"] for row in rows if row["unit_of_order"] == "ann"] == ["a1", "a2"]
    assert {(row["delivery_count"], row["redelivered"]) for row in rows} == {(1, False)}


def test_a_browser_shows_the_first_of_each_unit_or_all_and_takes_nothing(cli: Run, queue: str) -> None:
    for text, unit in (("a1", "ann"), ("a2", "ann"), ("b1", "bob")):
        cli("send", queue, "--text", text, "--unit", unit)
    cli("send", queue, "--text", "later", "--unit", "cid", "--delay-ms", "600000")
    deliverable = {row["body"] for row in _rows(cli("browse", queue, "--json").out)}
    assert deliverable == {"a1", "b1"}
    everything = _rows(cli("browse", queue, "--all", "--json").out)
    assert {row["body"] for row in everything} == {"a1", "a2", "b1", "later"}
    assert {row["state"] for row in everything} == {"new"}
    table = cli("browse", queue, "--all").out
    assert table.count("\n") == 5
    assert "later" in table


def test_a_browser_shows_what_a_selector_chooses(cli: Run, queue: str) -> None:
    for body, region, quantity in (("a", "EU", 9), ("b", "EU", 11), ("c", "US", 12)):
        options = ("--property", f"region={region}", "--property", f"qty:int={quantity}")
        assert cli("send", queue, "--text", body, *options).code == 0
    rows = _rows(cli("browse", queue, "--selector", "region = 'EU' AND qty > 10", "--json").out)
    assert [row["body"] for row in rows] == ["b"]
    none = cli("browse", queue, "--selector", "region = 'Mars'").out
    assert none == f"queue:{queue}: no messages of what the selector chooses\n"
    wrong = cli("browse", queue, "--selector", "region == 'EU'")
    assert wrong.code == 2
    assert "column 9: found '=', expected one = only" in " ".join(wrong.err.split())


def test_what_stands_still_in_one_partition_was_to_be_picked_out_of_all_messages(cli: Run, queue: str) -> None:
    """In a crash loop the killer is the first of one partition, and `browse` had no option for that."""
    for unit in ("ann", "bob", "cid", "ann"):
        assert cli("send", queue, "--text", unit, "--unit", unit).code == 0
    placed: dict[int, list[int]] = {}
    for row in _rows(cli("browse", queue, "--all", "--json").out):
        placed.setdefault(row["kafka"]["partition"], []).append(row["kafka"]["offset"])
    for partition, offsets in placed.items():
        rows = _rows(cli("browse", queue, "--partition", str(partition), "--json").out)
        assert {row["kafka"]["partition"] for row in rows} == {partition}
        assert [row["kafka"]["offset"] for row in rows] == sorted(offsets), "also what waits behind others"
    empty = next(each for each in range(16) if each not in placed)
    assert cli("browse", queue, "--partition", str(empty)).out == f"queue:{queue}: no messages in partition {empty}\n"
    beyond = cli("browse", queue, "--partition", "9999")
    assert (beyond.code, beyond.out) == (1, "")
    assert beyond.err.startswith(f"jbm-kafka: {queue} has no partition 9999: its last one is ")


def test_a_browser_shows_one_unit_also_of_what_a_selector_chooses(cli: Run, queue: str) -> None:
    """`--unit` was led to `--count`, though all other commands have it."""
    for unit, colour in (("joe's", "red"), ("joe's", "blue"), ("ann", "red")):
        cli("send", queue, "--text", f"{unit} {colour}", "--unit", unit, "--property", f"colour={colour}")
    shown = cli("browse", queue, "--all", "--unit", "joe's", "--json").out.splitlines()
    assert [json.loads(line)["body"] for line in shown] == ["joe's red", "joe's blue"]
    selected = cli("browse", queue, "--all", "--unit", "joe's", "--selector", "colour = 'blue' OR 1 = 0", "--json")
    assert json.loads(selected.out)["body"] == "joe's blue"
    assert cli("browse", queue, "--unit", "sue").out == f"queue:{queue}: no messages of unit sue\n"


def test_what_a_selector_chooses_is_received_and_the_rest_stays(cli: Run, queue: str) -> None:
    for body, region in (("a", "US"), ("b", "EU")):
        assert cli("send", queue, "--text", body, "--property", f"region={region}").code == 0
    assert cli("receive", queue, "--selector", "region = 'EU'").out == "b\n"
    none = cli("receive", queue, "--selector", "region = 'EU'", "--timeout", "0.1")
    assert (none.code, none.out) == (1, "")
    assert "no message that the selector chooses came within 0.1 s" in none.err
    assert cli("receive", queue).out == "a\n"


def test_what_a_browser_does_not_show_is_counted_with_why(cli: Run, queue: str) -> None:
    """A queue with one unit looked as if it held one message."""
    cli("send", queue, "--text", "later", "--delay-ms", "600000")
    told = "1 message is not shown: 1 delayed; --all shows all\n"
    assert cli("browse", queue) == Said(0, f"queue:{queue}: nothing to receive now\n", told)
    cli("send", queue, "--text", "in turn", "--unit", "joe", "--count", "4")
    told = "4 messages are not shown: {}; --all shows all\n"
    for options in ((), ("--json",)):
        said = cli("browse", queue, *options)
        assert said.out.count("in turn") == 1
        assert said.err in {
            told.format(", ".join(why)) for why in permutations(("1 delayed", "3 behind others of their unit"))
        }
    assert cli("browse", queue, "--all").err == ""
    assert cli("browse", queue, "--selector", "x = 1") == Said(
        0, f"queue:{queue}: no messages of what the selector chooses\n", ""
    )


def test_a_long_queue_does_not_fill_the_terminal(cli: Run, queue: str) -> None:
    """A thousand rows stood there, and --count was no option: '--config' or '--json' was meant, probably."""
    cli("send", queue, "--text", "row-", "--count", "103")
    said = cli("browse", queue)
    assert said.out.count("row-") == 100
    assert said.err == "3 more are not shown; --count N shows so many, --json without it all\n"
    said = cli("browse", queue, "--count", "102")
    assert (said.out.count("row-"), said.err.startswith("1 more is not shown; ")) == (102, True)
    assert (cli("browse", queue, "--count", "103").err, cli("browse", queue, "--json").err) == ("", "")
    assert cli("browse", queue, "--json").out.count("row-") == 103
    said = cli("browse", queue, "--json", "--count", "2")
    assert (said.out.count("row-"), said.err.startswith("101 more are not shown; ")) == (2, True)


def test_a_message_on_hold_is_shown_as_such(cli: Run, queue: str, url: str) -> None:
    """Of UNIT-16: it had the year 36 million in the column of times."""
    settings = {"#": AddressSettings(max_delivery_attempts=1, on_dead_letter="hold")}
    cli("send", queue, "--text", "poison", "--unit", "joe")
    with (
        ConnectionFactory(url, address_settings=settings).create_connection() as connection,
        connection.create_session(AcknowledgeMode.INDIVIDUAL) as session,
    ):
        message = session.create_consumer(Queue(queue)).receive(30)
        assert message is not None
        message.nack()
    assert "on hold" in cli("browse", queue, "--all").out


def test_received_bytes_are_readable_or_raw(
    cli: Run, queue: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They came out as they were, with a line end behind each: neither readable nor the same bytes."""
    binary, text = b"\x00\xff\n\\done", "zw\u00f6lf\tB\u00fccher\nand more".encode()
    write(world, *[Outgoing(queue, 0, b"joe", body) for body in (binary, text, binary, text)])
    readable = r"\x00\xff\x0a\\done" + "\n" + text.decode() + "\n"
    assert cli("receive", queue, "--count", "2").out == readable
    printed = io.TextIOWrapper(io.BytesIO())
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", printed)
        assert cli("receive", queue, "--raw", "--count", "2").code == 0
    assert printed.detach().getvalue() == binary + text
    said = cli("receive", queue, "--raw", "--json")
    assert (said.code, said.err) == (2, "jbm-kafka receive: --raw and --json are two forms: give one of them\n")


def test_every_kind_of_body_is_sent_received_and_browsed(cli: Run, queue: str, url: str) -> None:
    """Of MSG-1: maps, streams and objects are given and shown as JSON."""
    bodies = {"text": "1", "bytes": "1", "map": '{"a": 1}', "stream": '[1, "b"]', "object": '{"a": [1, null]}'}
    for kind, text in bodies.items():
        assert cli("send", queue, "--kind", kind, "--text", text, "--unit", "u").code == 0
    with ConnectionFactory(url).create_context() as jms:
        browsed = jms.create_browser(Queue(queue), include="all")
        assert [type(message).__name__.lower().removesuffix("message") for message in browsed] == list(bodies)
    rows = _rows(cli("browse", queue, "--all", "--json").out)
    assert [row.get("body") for row in rows] == ["1", None, {"a": 1}, [1, "b"], {"a": [1, None]}]
    assert cli("browse", queue, "--all").out.count('{"a":[1,null]}') == 1
    shown = cli("receive", queue, "--count", "5").out.splitlines()
    assert shown == ["1", "1", '{"a": 1}', '[1, "b"]', '{"a":[1,null]}']


def test_an_object_of_an_application_s_codec_is_shown_by_its_bytes(cli: Run, queue: str, world: World) -> None:
    """Of MSG-2: no command knows the codec."""
    headers = [("JBMBody", b"object"), ("JBMCodec", b"parcel-v1")]
    write(world, *[Outgoing(queue, 0, b"joe", b"\x00parcel", headers) for _ in range(2)])
    (row,) = _rows(cli("browse", queue, "--json").out)
    assert (row["codec"], base64.b64decode(row["body_base64"]), "body" in row) == ("parcel-v1", b"\x00parcel", False)
    assert "parcel" in cli("browse", queue).out
    assert cli("receive", queue).out == r"\x00parcel" + "\n"
    (row,) = _rows(cli("receive", queue, "--json").out)
    assert row["codec"] == "parcel-v1"


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("map", "{", "--kind map: the body is not JSON: Expecting"),
        ("map", "[1]", "--kind map wants a JSON object, as in {"),
        ("stream", '{"a": 1}', "--kind stream wants a JSON array, as in ["),
        ("map", '{"a": [1]}', "map entry 'a' is [1]"),
    ],
)
def test_a_body_that_is_not_of_its_kind_is_refused(cli: Run, queue: str, kind: str, text: str, says: str) -> None:
    said = cli("send", queue, "--kind", kind, "--text", text)
    assert said.code == 2
    assert says in said.err


def test_hostile_records_neither_steer_the_terminal_nor_break_the_listing(cli: Run, queue: str, world: World) -> None:
    escape = "\x1b[2J\x1b]0;owned\x07[bold]x[/bold]"
    headers: list[tuple[str, bytes | None]] = [
        ("JBMBody", b"text"),
        ("jms.int.n", b"no number"),
        ("x", b"\xff"),
        ("x", None),
        ("JMSPriority", b"-"),
    ]
    write(
        world,
        Outgoing(queue, 0, escape.encode(), escape.encode(), headers, timestamp_ms=1),
        Outgoing(queue, 0, b"\xff\xfe", b"\xff" * 2000),
        Outgoing(queue, 0, None, None),
    )
    for command in ("browse", "show", "list"):
        said = cli(command, *(() if command == "list" else (queue,)))
        assert said.code == 0, said
        assert "\x1b" not in said.out
        assert "\x07" not in said.out
    rows = _rows(cli("browse", queue, "--all", "--json").out)
    assert [row["unit_of_order"] for row in rows] == [escape, "0xfffe", None]
    assert "[bold]x[/bold]" in cli("browse", queue).out
    assert [row["properties"].get("n") for row in rows] == ["no number", None, None]
