"""What people are told of each rule that keeps a message: a sentence, and what can be done about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from jbm_kafka.admin.explained_receivers import HANGS_MS, duration
from jbm_kafka.admin.explanation import ExplainedMessage, ExplainedReceiver, Holder, Reason, Taken
from jbm_kafka.codec.pause_record import Halt
from jbm_kafka.core.blocking_rule import Rule
from jbm_kafka.ports import FoundTransactions, OpenTransaction, Unreachable

NO_CHANGELOG: Final = "its changelog is missing; a receiver makes it again (docs: the changelog of a queue)"
_TEXTS: Final[Mapping[Rule, str]] = {
    Rule.DELAYED: "it came back, and waits for its redelivery delay",
    Rule.NOT_YET_DUE: "it was sent with a delivery delay, which is not over",
    Rule.ON_HOLD: "it is out of attempts and on hold with its unit (on_dead_letter='hold')",
    Rule.NOT_SELECTED: "no receiver's selector chooses it",
    Rule.EXPIRED: "its time to live is over: it leaves as soon as somebody receives",
    Rule.LEAVING: "it is on its way to the dead-letter or expiry address",
    Rule.IN_DOUBT: "it is acknowledged in a commit or checkpoint whose end is not known yet",
    Rule.NOT_READ: "it lies behind what the owner of its partition has read",
    Rule.SETTLED: "it is settled (acknowledged, given up or expired), and that is not recorded yet",
    Rule.READY: "nothing keeps it: it goes to the next receiver that asks",
    Rule.RECEIVERS_BUSY: "it could go, but no receiver asks for one now",
    Rule.RECORDING: "it goes when the next checkpoint is written",
    Rule.NOBODY_RECEIVES: "nobody receives",
    Rule.NO_OWNER: "no process says that it has its partition: the group is about to give it to one",
    Rule.OWNER_SILENT: "the process that has its partition did not say",
    Rule.OPENING: "the process that has its partition reads what is recorded of it",
    Rule.CLOSED: "the process that has its partition cannot read it",
    Rule.MOVING: "its partition is about to go to another process; handlers that run are waited for, for "
    "revoke_drain_ms at most",
    Rule.PAUSED: "receiving is paused",
    Rule.SENDING_PAUSED: "sending is paused",
    Rule.BEHIND: "earlier messages of its unit are not finished",
    Rule.NO_CHANGELOG: NO_CHANGELOG,
}
_REMEDIES: Final[Mapping[Rule, str]] = {
    Rule.DELAYED: "why its last attempt failed is in the log of the process that had it; to have it at once pause "
    "receiving, give its unit up, retry those dead letters, and resume",
    Rule.NOT_SELECTED: "all processes of a queue select alike, and one with another selector is refused while others "
    "run: end them all, and start them with selectors of which one chooses it, or with none",
    Rule.NOBODY_RECEIVES: "start a receiver",
    Rule.NO_OWNER: "wait some seconds. If it stays so, a member hangs or is stopped: the others wait for it until its "
    "session timeout is over (session_timeout_ms), or, if it lives, until it says what it gives up. Look at those that "
    "are not heard of, and end the one that hangs",
    Rule.OWNER_SILENT: "if it has died or is frozen, the group puts it out after its session timeout "
    "(session_timeout_ms of its program; 10 s where that sets none), and others get its partitions. If it stays: see "
    "its log, and stop one that hangs; one of an older version cannot say",
    Rule.RECORDING: "if it stays so, Kafka takes no checkpoint: see the log of the process that has its partition",
    Rule.CLOSED: "see the log of that process",
}

_IF_IT_HANGS: Final = "if it hangs"
_ONE_UNIT: Final = "messages of one unit follow one another: more receivers or processes do not help it"
WAITS_FOR_CHECKPOINT: Final = "the process that has its partition waits for a checkpoint, and hands over no more before"
AT_WORK_MS = 5_000
"""Who has had a message for less works on it, as far as anybody can see."""
GOING_ON_MS = 10_000
"""Who has had a message for longer may hang in it."""
SELECTORS_NAMED = 3
"""So many of the receivers' selectors are told."""
SELECTOR_MAX = 200
"""Characters of one that are told."""


def with_remedy(found: Reason, command: str) -> Reason:
    """The reason, with the command that ends it."""
    return replace(found, remedy=f"{command} lets it go on")


def with_release(found: Reason, command: str) -> Reason:
    """The reason, a hold, with the command that releases it, which does one of two things."""
    remedy = f"{command} gives it up, to the dead-letter address, and its unit goes on; with --again it is tried anew"
    return replace(found, remedy=remedy)


def reason(rule: Rule, *, text: str = "", since_ms: int | None = None, until_ms: int | None = None) -> Reason:
    """What is told of the rule; `text` instead of its sentence."""
    return Reason(
        rule=rule,
        text=text or _TEXTS[rule],
        since_ms=since_ms,
        until_ms=until_ms,
        remedy=_REMEDIES.get(rule, ""),
    )


def not_held(older_than_ms: int, message_id: str | None) -> Reason:
    """Nothing of that unit or message is there; neither is anything that keeps it."""
    of_old = f"of what was sent more than {older_than_ms / 1_000:g} s ago, " if older_than_ms else ""
    form = "" if message_id is None or message_id.startswith("ID:") else "; ids begin with ID:"
    return Reason(
        rule=Rule.NOT_HELD,
        text=f"{of_old}nothing of that is held: it was acknowledged, given up or expired, never sent here, or deleted "
        f"by its topic's retention.ms before anybody received it{form}",
        remedy="Admin.dead_letters() has what was given up, and dead_letters('ExpiryQueue') what expired",
    )


def unreadable(error: Unreachable, *, has_brokers: bool) -> Reason:
    """What is held cannot be read: by the error, or, where brokers answer, for what a process that died left open."""
    what = "what is held cannot be read now"
    if not has_brokers:
        return Reason(rule=Rule.IN_DOUBT, text=f"{what}: {error}")
    return Reason(
        rule=Rule.IN_DOUBT,
        text=f"{what}: a process that died has, most likely, left a checkpoint open",
        remedy="it ends within 10 s of the death: ask again. If workers die again and again, one message kills them: "
        "docs/runbook.md, A message kills its workers",
    )


def settled(*, is_recording: bool, next_offset: int | None = None, worked_on_in: str = "") -> Reason:
    """It is finished, which the changelog does not have yet.

    Args:
        is_recording: hand-over stands still until the next checkpoint.
        next_offset: of the one that is first in its unit now.
        worked_on_in: the process that works on the unit; empty: it is not known, or there is no more of it.
    """
    text = _TEXTS[Rule.SETTLED]
    if is_recording:
        text += f": {WAITS_FOR_CHECKPOINT}"
    if next_offset is not None:
        text += f"; the first of its unit is at offset {next_offset} now"
    if worked_on_in:
        text += f"; its unit goes on, message after message, in {worked_on_in}"
    return Reason(rule=Rule.SETTLED, text=text, remedy=_ONE_UNIT if worked_on_in else "")


def of_the_next(found: Reason) -> Reason:
    """Said below that the first of the unit is settled: "it could go" would be said of a message that is done."""
    return replace(found, text=f"the next of its unit: {found.text}")


def going_on(in_hand: Reason, now_ms: int) -> Reason:
    """It is in a hand, or its receiver in one beside it, and those before it in its unit were settled lately.

    Unless that has been so for long, nobody hangs. Where it is not known since when, nothing else is said.
    """
    if in_hand.since_ms is None or now_ms - in_hand.since_ms > GOING_ON_MS:
        return in_hand
    return replace(in_hand, text=f"its unit goes on, message after message: {in_hand.text}", remedy=_ONE_UNIT)


def is_at_work(found: ExplainedMessage, now_ms: int) -> bool:
    """Whether workers are at its unit, and nothing need be done: a moment later it is another message of another unit.

    The first is in work for a moment only; or it is finished, and the changelog has that within a second.
    """
    *before, last = found.reasons
    if any(WAITS_FOR_CHECKPOINT in each.text for each in found.reasons):
        return False
    if any(each.rule not in (Rule.SETTLED, Rule.IN_HAND) for each in before):
        return False
    if last.rule is Rule.SETTLED:
        return True
    if last.rule not in (Rule.IN_HAND, Rule.RECEIVERS_BUSY):
        return False
    if last.since_ms is None:
        return any(each.rule is Rule.SETTLED for each in before)
    return now_ms - last.since_ms < AT_WORK_MS


def not_selected(selectors: Iterable[str]) -> Reason:
    """No receiver chooses it; `selectors`: theirs."""
    known = sorted({each for each in selectors if each})
    if not known:
        return reason(Rule.NOT_SELECTED)
    more = f", and {len(known) - SELECTORS_NAMED} more" if len(known) > SELECTORS_NAMED else ""
    named = "; ".join(
        each if len(each) <= SELECTOR_MAX else f"{each[:SELECTOR_MAX]}…" for each in known[:SELECTORS_NAMED]
    )
    return reason(Rule.NOT_SELECTED, text=f"{_TEXTS[Rule.NOT_SELECTED]}: they select {named}{more}")


def not_read(answer: Mapping[str, Any]) -> Reason:
    """It lies behind what was read, as the owner that answered has it."""
    text = f"the owner of its partition has read up to offset {answer.get('read_to')}"
    if not answer.get("is_read_on", True):
        text += ", and reads on when some of what it has read is taken"
    return reason(Rule.NOT_READ, text=text)


def failed_on_hold(last_error: str) -> Reason:
    """It is on hold, and its owner knows why the last attempt failed."""
    return reason(Rule.ON_HOLD, text=f"{_TEXTS[Rule.ON_HOLD]}; its last attempt failed with {last_error}")


def busy(why: str, remedy: str) -> Reason:
    """It could go, and no receiver asks, for that reason."""
    text = _TEXTS[Rule.RECEIVERS_BUSY]
    return replace(reason(Rule.RECEIVERS_BUSY, text=f"{text}: {why}" if why else text), remedy=remedy)


def in_hand(holder: Holder, since_ms: int | None) -> Reason:
    """A receiver has it."""
    where = "in the buffer of" if holder.is_unread else "in the hand of"
    return Reason(
        rule=Rule.IN_HAND,
        text=f"it is {where} {holder}",
        since_ms=since_ms,
        holder=holder,
        remedy=_stop(holder.process),
    )


def in_listener(found: Reason, since_ms: int) -> Reason:
    """It is in a hand, and is what the listener there has been called with, and has not returned of."""
    return replace(found, text=f"{found.text}, whose listener has been in it", since_ms=since_ms)


def working_on(receiver: ExplainedReceiver, taken: Taken) -> Reason:
    """What a receiver does while other messages wait in its buffer or in its hand."""
    text = (
        f"the listener of receiver {receiver.receiver} has been in {taken}"
        if receiver.asks.is_in_listener
        else f"receiver {receiver.receiver} has got {taken}, and has not asked for the next"
    )
    return Reason(rule=Rule.RECEIVERS_BUSY, text=text, since_ms=taken.since_ms, remedy=_stop(receiver.process))


def in_another_listener(receiver: ExplainedReceiver) -> Reason:
    """A message lies in the buffer of one whose session is in a listener of another queue."""
    ago_ms = receiver.asks.ago_ms or 0
    text = (
        f"the session of receiver {receiver.receiver} has been in another of its listeners for {duration(ago_ms)}: "
        f"explain of that one's queue names the message"
    )
    remedy = _stop(receiver.process) if ago_ms >= HANGS_MS else ""
    return Reason(rule=Rule.RECEIVERS_BUSY, text=text, remedy=remedy)


def not_to_stop_yet(found: Reason, now_ms: int) -> Reason:
    """The reason; of who has had the message for a moment only, without the advice to stop him."""
    is_young = found.since_ms is not None and now_ms - found.since_ms < HANGS_MS
    return replace(found, remedy="") if is_young and found.remedy.startswith(_IF_IT_HANGS) else found


def _stop(process: str) -> str:
    return (
        f"{_IF_IT_HANGS}, stop {process}: what it has goes to others. If the next one hangs in it too, it is the "
        f"message: give that one up"
    )


def behind(offset: int | None, holder: Holder | None) -> Reason:
    """An earlier message of its unit is not finished."""
    place = "earlier messages" if offset is None else f"the message at offset {offset}"
    text = f"it is behind {place} of its unit"
    return Reason(rule=Rule.BEHIND, text=text if holder is None else f"{text}, with {holder}", holder=holder)


def holder_of(told: Mapping[str, Any], process: str) -> Holder:
    """The holder, as its process tells it."""
    return Holder(
        process=process,
        client_id=str(told.get("client_id", "")),
        session=str(told.get("session", "")),
        receiver=str(told.get("receiver", "")),
        mode=str(told.get("mode", "")),
        is_unread=bool(told.get("is_unread")),
    )


def paused(halt: Halt) -> Reason:
    """An operator has paused receiving."""
    return reason(Rule.PAUSED, text=f"receiving is paused by {halt.by}", since_ms=halt.since_ms)


def paused_sending(halt: Halt) -> Reason:
    """An operator has paused sending."""
    return reason(Rule.SENDING_PAUSED, text=f"sending is paused by {halt.by}", since_ms=halt.since_ms)


def not_admitted(partitions: int, unit_partitions: int, command: str) -> Reason:
    """Somebody added partitions, and senders of units wait for them to be admitted."""
    text = (
        f"its topic has {partitions} partitions, and its units are routed by {unit_partitions}: what is sent with a "
        f"unit is refused"
    )
    return Reason(
        rule=Rule.NOT_ADMITTED, text=text, remedy=f"{command} routes them anew, each when nothing of it is left"
    )


def admitting(partitions: int, command: str) -> Reason:
    """An admission runs, or was interrupted: senders go by it already, and no send is refused."""
    text = f"an admission of {partitions} partitions has begun and not ended: sends pass meanwhile"
    return Reason(rule=Rule.NOT_ADMITTED, text=text, remedy=f"if nobody runs it any more, {command} takes it up")


def open_transactions(
    topic: str, partition: int, position: int, waiting: int, found: FoundTransactions | str, *, bootstrap: str
) -> list[Reason]:
    """What holds a partition back at this position.

    Args:
        waiting: records from there on.
        found: what the coordinators have recorded, or why that cannot be read.
    """
    records = "1 record" if waiting == 1 else f"{waiting} records"
    what = f"{records} from offset {position} on wait{'s' if waiting == 1 else ''} for the end of a Kafka transaction"
    if isinstance(found, str):
        remedy = f"{_tool(bootstrap, 'describe-producers', topic, partition)} tells whose it is"
        return [Reason(rule=Rule.OPEN_TRANSACTION, text=f"{what}; whose is not known: {found}", remedy=remedy)]
    if found.transactions:
        return [_open(what, each, bootstrap) for each in found.transactions]
    if not found.is_whole:
        remedy = f"{_tool(bootstrap, 'describe-producers', topic, partition)} tells whose it is"
        text = f"{what}, which is not among those that were recorded lately"
        return [Reason(rule=Rule.OPEN_TRANSACTION, text=text, remedy=remedy)]
    abort = f"{_tool(bootstrap, 'abort', topic, partition)} --start-offset {position} ends it"
    text = f"{what} that no coordinator knows any more: it never ends by itself"
    return [Reason(rule=Rule.OPEN_TRANSACTION, text=text, remedy=abort)]


def _open(what: str, transaction: OpenTransaction, bootstrap: str) -> Reason:
    ends_at_ms = transaction.began_at_ms + transaction.timeout_ms
    text = (
        f"{what}: of transactional id {transaction.transactional_id!r}, producer id {transaction.producer_id}, "
        f"{transaction.state}"
    )
    if transaction.state != "Ongoing":
        remedy = "its end is decided, and brokers are about to mark it; if it stays, kafka-transactions.sh find-hanging"
        return Reason(
            rule=Rule.OPEN_TRANSACTION, text=text, since_ms=transaction.began_at_ms, remedy=f"{remedy} lists it"
        )
    return Reason(
        rule=Rule.OPEN_TRANSACTION,
        text=text,
        since_ms=transaction.began_at_ms,
        until_ms=ends_at_ms,
        remedy=f"its producer ends it, or its coordinator some seconds after its timeout of "
        f"{transaction.timeout_ms / 1000:g} s; kafka-transactions.sh --bootstrap-server {bootstrap} describe "
        f"--transactional-id {transaction.transactional_id} tells more, and forceTerminateTransaction "
        f"--transactionalId {transaction.transactional_id} ends it now, in all its partitions: what "
        "it wrote is thrown away",
    )


def _tool(bootstrap: str, verb: str, topic: str, partition: int) -> str:
    return f"kafka-transactions.sh --bootstrap-server {bootstrap} {verb} --topic {topic} --partition {partition}"
