"""Writes the orders of `jbm-kafka demo`: `python -m tests.demo.orders_file > jbm_kafka/demo/orders.jsonl`.

One JSON object a line, in the order of arrival. The seed is fixed, so that everybody's figures are the same; a test
compares what this writes with the file. Titles and prices are those of the bookstore in Spark.
"""

import csv
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.house.sources import ROOT

SEED = 1602
CUSTOMERS = 300
MINUTES_OPEN = 600
"""Orders arrive at random over one shop day; only their sequence is used."""

BANK_REFUSES = (3, 11, 19, 26, 34, 58, 91, 120, 177, 204, 251, 288)
"""Customers whose second order the bank refuses twice before it pays."""
POISON = 8
"""The customer whose second order says 'two dozen' where a number belongs; its later orders must go on."""

_GIVEN = (
    "Ada",
    "Amir",
    "Bao",
    "Carla",
    "Dmitri",
    "Elif",
    "Femi",
    "Greta",
    "Hana",
    "Ivo",
    "Jun",
    "Kofi",
    "Lena",
    "Noor",
)
_FAMILY = (
    "Almeida",
    "Berger",
    "Cho",
    "Diallo",
    "Eriksen",
    "Garcia",
    "Haddad",
    "Ito",
    "Jansen",
    "Kaya",
    "Novak",
    "Okafor",
)
_REGIONS = ("EU", "EU", "EU", "US", "US", "UK", "ASIA")
with (ROOT / "spark" / "bookstore" / "titles.csv").open(encoding="utf-8", newline="") as file:
    _TITLES = [(row["title"], int(row["price_cents"])) for row in csv.DictReader(file)]
_REASONS = ("ordered twice", "found it cheaper", "changed my mind", "wrong book")


@dataclass(frozen=True, slots=True)
class _Arrival:
    minute: float
    number: int
    """Breaks ties, so that a cancellation at once comes right after its order."""
    line: dict[str, object]


def lines(seed: int = SEED) -> Iterator[str]:
    """The file, line by line."""
    chance = random.Random(seed)
    arrivals: list[_Arrival] = []
    for customer in range(1, CUSTOMERS + 1):
        arrivals.extend(_customer(chance, customer))
    arrivals.sort(key=lambda arrival: (arrival.minute, arrival.number))
    numbers: dict[object, str] = {}
    for arrival in arrivals:
        line = arrival.line
        # Order numbers are given at the counter: in the order of arrival.
        numbers.setdefault(line["order"], f"B-{len(numbers) + 1:05}")
        yield json.dumps({**line, "order": numbers[line["order"]]}, ensure_ascii=False)


def _customer(chance: random.Random, customer: int) -> Iterator[_Arrival]:
    """One customer's day: two to four orders, some of them cancelled, at once or after a while."""
    name, region = f"{chance.choice(_GIVEN)} {chance.choice(_FAMILY)}", chance.choice(_REGIONS)
    count = chance.choice((2, 2, 3, 3, 4))
    if customer == POISON or customer in BANK_REFUSES:
        count = 4  # so that there are orders that must wait behind the one that fails
    minutes = sorted(chance.uniform(0, MINUTES_OPEN) for _ in range(count))
    for index, minute in enumerate(minutes):
        key = f"{customer}/{index}"
        about: dict[str, object] = {"order": key, "customer": f"C-{customer:04}"}
        order: dict[str, object] = {"kind": "order", **about, "name": name, "region": region, "items": _items(chance)}
        is_special = index == 1 and (customer == POISON or customer in BANK_REFUSES)
        if is_special and customer == POISON:
            order["items"] = [{"title": "Bread for Beginners", "cents": 2450, "quantity": "two dozen"}]
        elif is_special:
            order["bank_refuses"] = 2
        yield _Arrival(minute, 2 * index, order)
        draw = chance.random()
        if draw < 0.2 and not is_special:
            after = 0.0 if draw < 0.12 else chance.uniform(0.5, 90)
            cancellation: dict[str, object] = {"kind": "cancellation", **about, "reason": chance.choice(_REASONS)}
            yield _Arrival(minute + after, 2 * index + 1, cancellation)


def _items(chance: random.Random) -> list[dict[str, object]]:
    titles = chance.sample(_TITLES, chance.choice((1, 1, 1, 2, 3)))
    return [{"title": title, "cents": cents, "quantity": chance.choice((1, 1, 1, 2, 3))} for title, cents in titles]


if __name__ == "__main__":
    for text in lines():
        print(text)
