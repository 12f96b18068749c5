"""What an operator does to messages: move, remove, expire, dead-letter. The owners of their partitions carry it out
(decision 40); here it is decided which messages are meant, and reported what became of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jbm_kafka.admin.cluster.admin_arguments import named
from jbm_kafka.admin.cluster.admin_core import patiently
from jbm_kafka.admin.messages.batches import BEHIND, Portions, portions_of
from jbm_kafka.admin.messages.dry_run import Handed, InHand
from jbm_kafka.admin.messages.selection import Choice, Chosen, ChosenMessage, check_order, check_whole, choose
from jbm_kafka.admin.owners.owner_client import Owners, OwnersAnswers
from jbm_kafka.admin.owners.present_owners import PresentOwners
from jbm_kafka.codec.pause_record import Pause
from jbm_kafka.core.channel.operator_removal import Verb
from jbm_kafka.core.destination import Destination, Queue, Topic
from jbm_kafka.core.summary import summary, with_lines
from jbm_kafka.core.wrong_values import checked_int
from jbm_kafka.jms.base.arguments import checked_flag, checked_seconds
from jbm_kafka.ports.provider import Seen

SeenAnew = Callable[[], Iterable[Seen]]
"""Goes through what a queue holds, from its beginning each time."""


@dataclass(frozen=True, slots=True)
class KeptMessage:
    """A message that was meant and is where it was."""

    message: ChosenMessage
    """As it was when it was looked at."""
    why: str
    """In words, with what can be done."""

    def __repr__(self) -> str:
        return summary(self, self.message.message_id, unit=self.message.unit, why=self.why)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesReport:
    """The outcome for the messages that were meant, or, of a dry run, which they are."""

    queue: Destination
    """The queue, or the topic of the subscription."""
    verb: str
    """"move", "remove", "expire", "dead-letter" or "send-now"."""
    is_dry_run: bool
    """Nothing was done: the rest tells what would be."""
    address: str | None
    """Where their copies are; None: they have no copies, or a dry run does not know."""
    messages: Sequence[ChosenMessage]
    """They have left, for good, with their copies; of "send-now" they are let go. In a dry run those that would.

    In their order.
    """
    in_hand: Sequence[ChosenMessage]
    """A receiver works on them, so they stay there. A dry run asks the receivers, as it was a moment ago."""
    kept: Sequence[KeptMessage]
    """They stay for another reason."""
    gone: Sequence[ChosenMessage]
    """They were gone when their owner was asked: acknowledged, expired; or, if this process asked twice because the
    owner died, by this very call."""
    left_out: int
    """So many more were meant, beyond `count`."""
    warnings: Sequence[str]
    """Remarks that the caller should read, such as units that were split."""

    def __repr__(self) -> str:
        return summary(
            self,
            self.queue,
            verb=self.verb,
            is_dry_run=self.is_dry_run,
            address=self.address,
            messages=self.messages,
            in_hand=self.in_hand,
            kept=self.kept,
            gone=self.gone,
            left_out=self.left_out,
            warnings=self.warnings,
        )

    def __str__(self) -> str:
        return with_lines(repr(self), self.warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The request."""

    verb: Verb
    destination: Queue | Topic
    subscription: str | None
    """Its name, of a topic."""
    client_id: str
    choice: Choice
    to: Queue | None = None
    order: str = "log"
    count: int | None = None
    splits_units: bool = False
    dry_run: bool = False
    timeout_s: float = 60.0


def wish_of(
    verb: Verb,
    destination: Queue | Topic | str,
    subscription: str | None,
    client_id: str,
    choice: Choice,
    **asked: Any,
) -> Wish:
    """Return what a caller gives, as it is used; `asked` as the fields of `Wish`.

    Raises:
        InvalidSettingError: a value that cannot be.
    """
    checked_flag("dry_run", asked.get("dry_run", False))
    checked_flag("split_units", asked.get("splits_units", False))
    if asked.get("count") is not None:
        checked_int("count", asked["count"], 1, None, "messages")
    check_order(asked.get("order", "log"))
    timeout_s = checked_seconds("timeout_s", asked.pop("timeout_s"))
    return Wish(
        verb=verb,
        destination=named(destination, subscription, client_id),
        subscription=subscription,
        client_id=client_id,
        choice=choice,
        timeout_s=timeout_s,
        **asked,
    )


def take_out(
    wish: Wish,
    *,
    seen: SeenAnew,
    owners: Owners,
    present: PresentOwners,
    pause_of: Callable[[Destination], Pause],
) -> MessagesReport:
    """Choose the messages, and have their owners do it; of a dry run only ask the owners that are there.

    Raises:
        OrderError: units would be split; nothing was done.
        JMSError: as of `Owners.ask_in_turn`.
    """
    handed = Handed()
    chosen = patiently(lambda: choose(handed.noting(seen()), wish.choice, order=wish.order, count=wish.count))
    warnings = [*_order_warnings(wish, chosen, pause_of)]
    planned = MessagesReport(
        queue=wish.destination,
        verb=wish.verb.value,
        is_dry_run=wish.dry_run,
        address=None if wish.to is None else wish.to.name,
        messages=chosen.messages,
        in_hand=(),
        kept=(),
        gone=(),
        left_out=chosen.left_out,
        warnings=warnings,
    )
    if wish.dry_run:
        return _as_if_done(planned, wish, handed.worked_on(present))
    if not chosen.messages:
        return planned
    by_partition = portions_of(chosen.messages, is_copied=wish.verb is not Verb.REMOVE)
    portions = {
        partition: Portions(wish.verb, wish.to, wish.splits_units, mine) for partition, mine in by_partition.items()
    }
    turns = {partition: mine.arguments for partition, mine in portions.items()}
    return _by_answers(planned, portions, owners.ask_in_turn(wish.verb.value, turns, timeout_s=wish.timeout_s))


def _order_warnings(wish: Wish, chosen: Chosen, pause_of: Callable[[Destination], Pause]) -> Iterable[str]:
    """UNIT-14."""
    if wish.verb is not Verb.MOVE:
        return
    yield from check_whole(chosen, splits_units=wish.splits_units)
    if wish.to is None or not chosen.has_units:
        return
    source, target = pause_of(wish.destination), pause_of(wish.to)
    running = [
        f"{what} {destination.name}"
        for what, destination, halt in (
            ("sending to", wish.destination, source.production),
            ("receiving from", wish.destination, source.consumption),
            ("sending to", wish.to, target.production),
        )
        if halt is None
    ]
    if running:
        yield (
            f"not paused: {', '.join(running)}; messages of the units that come or go meanwhile are not in their order "
            f"with those that are moved. To keep it: jbm-kafka pause {wish.destination.name}, and {wish.to.name}, first"
        )


WHY: Mapping[str, str] = {
    BEHIND: "a worker has others of its unit in hand, or an earlier one of it stays",
    "too_large": "it is larger, compressed too, than max.message.bytes of the topic of {address}",
}


def _as_if_done(planned: MessagesReport, wish: Wish, hands: InHand) -> MessagesReport:
    leave, in_hand, behind = hands.split(planned.messages, whole_units=wish.verb is Verb.MOVE)
    kept = [KeptMessage(message, WHY[BEHIND]) for message in behind]
    return replace(planned, messages=leave, in_hand=in_hand, kept=kept)


def _by_answers(planned: MessagesReport, portions: Mapping[int, Portions], asked: OwnersAnswers) -> MessagesReport:
    """The report, by what the owners answered."""
    sorted_: dict[str, list[ChosenMessage]] = {"done": [], "in_hand": [], "gone": []}
    kept: list[KeptMessage] = []
    address = planned.address
    for partition, mine in portions.items():
        answers = asked.answers.get(partition, ())
        refusal = next((each.error for each in answers if each.error), asked.why_unanswered)
        address = next((each.result.get("address") for each in answers if not each.error), None) or address
        for message, fate in mine.fates(answers):
            if fate in sorted_:
                sorted_[fate].append(message)
            else:
                why = refusal if fate is None else WHY[fate].format(address=address)
                kept.append(KeptMessage(message, why))
    return replace(
        planned,
        address=address,
        messages=_in_order(sorted_["done"]),
        in_hand=_in_order(sorted_["in_hand"]),
        gone=_in_order(sorted_["gone"]),
        kept=kept,
    )


def _in_order(messages: Sequence[ChosenMessage]) -> Sequence[ChosenMessage]:
    return sorted(messages, key=lambda message: (message.sort_key, message.partition, message.offset))
