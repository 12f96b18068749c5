"""The file of orders: generated, realistic enough, and the same for everybody."""

from collections import defaultdict
from importlib.resources import files

from jbm_kafka.demo.bookstore import Names, day, is_poison, new_run, refusals, run_of
from tests.demo.orders_file import lines


def test_the_file_is_what_the_generator_writes() -> None:
    written = (files("jbm_kafka.demo") / "orders.jsonl").read_text(encoding="utf-8")
    assert written == "".join(f"{line}\n" for line in lines())


def test_the_day_has_what_the_demo_is_about() -> None:
    tasks = [(line["kind"], line["order"]) for line in day()]
    assert len(set(tasks)) == len(tasks) > 1_000
    assert len({line["customer"] for line in day()}) == 300
    assert sum(1 for line in day() if is_poison(line)) == 1
    assert sum(1 for line in day() if refusals(line)) == 12
    assert all(
        tasks.index(("order", number)) < tasks.index((kind, number)) for kind, number in tasks if kind != "order"
    )


def test_some_customers_cancel_at_once_and_the_poison_has_later_orders_behind_it() -> None:
    at_once = [
        a for a, b in zip(day(), day()[1:], strict=False) if b["kind"] == "cancellation" and a["order"] == b["order"]
    ]
    assert len(at_once) > 20
    of: dict[str, list[bool]] = defaultdict(list)
    for line in day():
        of[line["customer"]].append(is_poison(line))
    assert any(True in flags[:-1] for flags in of.values())


def test_a_shorter_day_keeps_the_poison_and_whole_customers() -> None:
    short = day(8)
    assert {line["customer"] for line in short} == {f"C-{number:04}" for number in range(1, 9)}
    assert sum(1 for line in short if is_poison(line)) == 1


def test_runs_do_not_share_queues() -> None:
    names = new_run()
    assert run_of(names.orders) == run_of(names.journal) == names.run
    assert run_of("bookstore.orders") is None
    assert names.group == f"queue:{Names(names.run).orders}"
