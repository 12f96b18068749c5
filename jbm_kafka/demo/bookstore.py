"""The agreements between the parts of the bookstore: its queues and its topic, their settings, and the lines of its
day."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from jbm_kafka.core.settings.address_settings import AddressSettings

DEAD_LETTERS = "DLQ"
SUBSCRIPTION = "audit"
"""The journal's subscription; durable, with a client id that each run has for itself."""
PARTITIONS = 6
MAX_ATTEMPTS = 3
REDELIVERY_DELAY_MS = 400
SECOND_DELAY_MS = 800
"""The delay doubles."""

_QUEUE_OF_A_RUN = re.compile(r"bookstore\.(\d{8}-\d{9})\.(orders|journal|audit)")

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Names:
    """The queues and the topic of one run. Each run has its own, so that none finds what another left."""

    run: str
    """When it began, UTC: `20261120-141236123`."""

    @property
    def orders(self) -> str:
        """The one queue the workers compete on."""
        return f"bookstore.{self.run}.orders"

    @property
    def journal(self) -> str:
        """The topic where workers write what they did, in the transaction in which they did it."""
        return f"bookstore.{self.run}.journal"

    @property
    def audit(self) -> str:
        """Where the audit notes what it read in the journal; also its client id."""
        return f"bookstore.{self.run}.audit"

    @property
    def group(self) -> str:
        """`queue:` and the name, as dead letters tell where they come from."""
        return f"queue:{self.orders}"


def new_run() -> Names:
    """Names that no earlier run had."""
    now = datetime.now(UTC)
    return Names(now.strftime("%Y%m%d-%H%M%S") + f"{now.microsecond // 1000:03}")


def run_of(queue: str) -> str | None:
    """The run a queue belongs to; None for every other queue."""
    found = _QUEUE_OF_A_RUN.fullmatch(queue)
    return None if found is None else found.group(1)


def address_settings() -> dict[str, AddressSettings]:
    """Two tries more after a first failure, each after twice the wait; then the dead-letter queue."""
    return {
        "bookstore.#": AddressSettings(
            max_delivery_attempts=MAX_ATTEMPTS,
            redelivery_delay_ms=REDELIVERY_DELAY_MS,
            redelivery_delay_multiplier=2.0,
            dead_letter_address=DEAD_LETTERS,
            partitions=PARTITIONS,
            truncate="never",  # the checker reads every order again at the end
        ),
    }


def day(customers: int | None = None) -> Sequence[Line]:
    """The orders and cancellations of the shop's day, as they arrive; only of the first so many customers."""
    text = (files("jbm_kafka.demo") / "orders.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    return [line for line in lines if customers is None or int(line["customer"].removeprefix("C-")) <= customers]


def is_poison(line: Line) -> bool:
    """Nobody can ever fulfil it: a quantity is no number."""
    return any(not isinstance(item["quantity"], int) for item in line.get("items", ()))


def refusals(line: Line) -> int:
    """How often the bank refuses before it pays."""
    count: int = line.get("bank_refuses", 0)
    return count
