"""A reason for each rule that keeps a message: its sentence, and what can be done about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from jbm_kafka.admin.explain.explanation import ExplainedMessage, ExplainedReceiver, Holder, Reason, Taken
from jbm_kafka.admin.explain.receiver_states import HANGS_MS, Doing, doing, duration, how_busy, may_hang
from jbm_kafka.codec.pause_record import Halt
from jbm_kafka.core.blocking_rule import Rule
from jbm_kafka.ports import FoundTransactions, OpenTransaction, Unreachable

NO_CHANGELOG: Final = "its changelog is missing; a receiver makes it again (docs: the changelog of a queue)"
_SAID: Final[Mapping[Rule, tuple[str, str]]] = {
    Rule.DELAYED: (
        "it came back, and waits for its redelivery delay",
        "why its last attempt failed is in the log of the process that had it; to have it at once pause receiving, "
        "give its unit up, retry those dead letters, and resume",
    ),
    Rule.NOT_YET_DUE: ("it was sent with a delivery delay, which is not over", ""),
    Rule.ON_HOLD: ("it is out of attempts and on hold with its unit (on_dead_letter='hold')", ""),
    Rule.NOT_SELECTED: (
        "no receiver's selector chooses it",
        "all processes of a queue select alike: end them all, and start them with selectors of which one chooses it, "
        "or with none",
    ),
    Rule.EXPIRED: ("its time to live is over: it leaves as soon as somebody receives", ""),
    Rule.LEAVING: ("it is on its way to the dead-letter or expiry address", ""),
    Rule.IN_DOUBT: ("it is acknowledged in a commit or checkpoint whose end is not known yet", ""),
    Rule.NOT_READ: ("it lies behind what the owner of its partition has read", ""),
    Rule.SETTLED: ("it is settled (acknowledged, given up or expired), and that is not recorded yet", ""),
    Rule.READY: ("nothing keeps it: it goes to the next receiver that asks", ""),
    Rule.RECEIVERS_BUSY: ("it could go, but no receiver asks for one now", ""),
    Rule.RECORDING: (
        "it goes when the next checkpoint is written",
        "if it stays so, Kafka takes no checkpoint: see the log of the process that has its partition",
    ),
    Rule.NOBODY_RECEIVES: ("nobody receives", "start a receiver"),
    Rule.NO_OWNER: (
        "no process says that it has its partition: the group is about to give it to one",
        "wait some seconds. If it stays so, a member hangs or is stopped: end it, or wait for its session timeout "
        "(session_timeout_ms)",
    ),
    Rule.OWNER_SILENT: (
        "the process that has its partition did not say",
        "if it has died or is frozen, the group puts it out after its session timeout (session_timeout_ms of its "
        "program; 10 s where that sets none), and others get its partitions. If it stays: see its log, and stop one "
        "that hangs; one of an older version cannot say",
    ),
    Rule.OPENING: ("the process that has its partition reads what is recorded of it", ""),
    Rule.CLOSED: ("the process that has its partition cannot read it", "see the log of that process"),
    Rule.MOVING: (
        "its partition is about to go to another process; handlers that run are waited for, for revoke_drain_ms at "
        "most",
        "",
    ),
    Rule.PAUSED: ("receiving is paused", ""),
    Rule.SENDING_PAUSED: ("sending is paused", ""),
    Rule.BEHIND: ("earlier messages of its unit are not finished", ""),
    Rule.NO_CHANGELOG: (NO_CHANGELOG, ""),
}
AT_WORK_MS = 5_000
"""Who has had a message for less works on it, as far as anybody can see."""
SELECTORS_NAMED = 3
"""So many of the receivers' selectors are told."""
SELECTOR_MAX = 200
"""Characters of one that are told."""


def reason(
    rule: Rule,
    *,
    text: str = "",
    more: str = "",
    since_ms: int | None = None,
    until_ms: int | None = None,
    holder: Holder | None = None,
    remedy: str | None = None,
) -> Reason:
    """The reason; `text` and `remedy` instead of its own, `more` behind its sentence."""
    said, what_to_do = _SAID.get(rule, ("", ""))
    return Reason(
        rule=rule,
        text=f"{text or said}{more}",
        since_ms=since_ms,
        until_ms=until_ms,
        holder=holder,
        remedy=what_to_do if remedy is None else remedy,
    )


def not_held(older_than_ms: int) -> Reason:
    """Nothing of that unit or message is there; neither is anything that keeps it."""
    of_old = f"of what was sent more than {older_than_ms / 1_000:g} s ago, " if older_than_ms else ""
    return reason(
        Rule.NOT_HELD,
        text=f"{of_old}nothing of that is held: it was acknowledged, given up or expired, never sent here, or deleted "
        f"by its topic's retention.ms before anybody received it",
        remedy="Admin.dead_letters() has what was given up, and dead_letters('ExpiryQueue') what expired",
    )


def unreadable(error: Unreachable, *, has_brokers: bool) -> Reason:
    """What is held cannot be read: by the error, or, where brokers answer, for what a process that died left open."""
    if not has_brokers:
        return reason(Rule.IN_DOUBT, text=f"what is held cannot be read now: {error}")
    return reason(
        Rule.IN_DOUBT,
        text="what is held cannot be read now: a process that died has, most likely, left a checkpoint open",
        remedy="it ends within 10 s of the death: ask again. If workers die again and again, one message kills them: "
        "docs/runbook.md, A message kills its workers",
    )


def is_at_work(found: ExplainedMessage, now_ms: int) -> bool:
    """Whether workers are at its unit, and nothing need be done: a moment later it is another message of another unit.

    The first is in work for a moment only; or it is finished, and the changelog has that within a second.
    """
    *before, last = found.reasons
    if any(each.rule not in (Rule.SETTLED, Rule.IN_HAND) for each in before):
        return False
    if last.rule is Rule.SETTLED:
        return True
    return (
        last.rule in (Rule.IN_HAND, Rule.RECEIVERS_BUSY)
        and last.since_ms is not None
        and now_ms - last.since_ms < AT_WORK_MS
    )


def not_selected(selectors: Iterable[str]) -> Reason:
    """No receiver chooses it; `selectors`: theirs."""
    known = sorted({each for each in selectors if each})
    if not known:
        return reason(Rule.NOT_SELECTED)
    more = f", and {len(known) - SELECTORS_NAMED} more" if len(known) > SELECTORS_NAMED else ""
    named = "; ".join(
        each if len(each) <= SELECTOR_MAX else f"{each[:SELECTOR_MAX]}…" for each in known[:SELECTORS_NAMED]
    )
    return reason(Rule.NOT_SELECTED, more=f": they select {named}{more}")


def not_read(answer: Mapping[str, Any]) -> Reason:
    """It lies behind what was read, as the owner that answered has it."""
    more = "" if answer.get("is_read_on", True) else ", and reads on when some of what it has read is taken"
    return reason(Rule.NOT_READ, text=f"the owner of its partition has read up to offset {answer.get('read_to')}{more}")


def on_hold(command: str, last_error: str | None) -> Reason:
    """It is on hold; the command releases it. `last_error`: why the last attempt failed, if that is known."""
    return reason(
        Rule.ON_HOLD,
        more="" if last_error is None else f"; its last attempt failed with {last_error}",
        remedy=f"{command} gives it up, to the dead-letter address, and its unit goes on; with --again it is tried "
        f"anew",
    )


def busy(receivers: Sequence[ExplainedReceiver], owner: str, *, has_idle_members: bool = False) -> Reason:
    """It could go, and no receiver of its partition's owner asks.

    `has_idle_members`: some processes have no partition, and so said nothing of their receivers.
    """
    mine = [each for each in receivers if each.process == owner]
    what = how_busy(mine)
    remedy = ""
    if any(doing(each) is Doing.NEVER_CALLED for each in mine):
        remedy = "call receive of those that never asked, or close them"
    elif any(may_hang(each) for each in mine):
        remedy = f"if it hangs, stop {owner}: others get its partitions"
    elif what and not (has_idle_members or any(each.is_idle for each in receivers if each.process != owner)):
        remedy = "more receivers or processes help, up to one process a partition, or faster handlers"
    more = f": in {owner}, which has its partition, {what}" if what else ""
    return reason(Rule.RECEIVERS_BUSY, more=more, remedy=remedy)


def in_hand(holder: Holder, since_ms: int | None, now_ms: int) -> Reason:
    """A receiver has it."""
    where = "in the buffer of" if holder.is_unread else "in the hand of"
    remedy = _stop(holder.process, since_ms, now_ms)
    return reason(Rule.IN_HAND, text=f"it is {where} {holder}", since_ms=since_ms, holder=holder, remedy=remedy)


def in_listener(holder: Holder, since_ms: int, now_ms: int) -> Reason:
    """A listener is still processing it."""
    text = f"it is in the hand of {holder}, whose listener has been in it"
    remedy = _stop(holder.process, since_ms, now_ms)
    return reason(Rule.IN_HAND, text=text, since_ms=since_ms, holder=holder, remedy=remedy)


def working_on(receiver: ExplainedReceiver, taken: Taken, now_ms: int) -> Reason:
    """What a receiver does while other messages wait in its buffer or in its hand."""
    text = (
        f"the listener of receiver {receiver.receiver} has been in {taken}"
        if receiver.asks.is_in_listener
        else f"receiver {receiver.receiver} has got {taken}, and has not asked for the next"
    )
    remedy = _stop(receiver.process, taken.since_ms, now_ms)
    return reason(Rule.RECEIVERS_BUSY, text=text, since_ms=taken.since_ms, remedy=remedy)


def in_another_listener(receiver: ExplainedReceiver) -> Reason:
    """A message lies in the buffer of one whose session is in a listener of another queue."""
    ago_ms = receiver.asks.ago_ms or 0
    text = (
        f"the session of receiver {receiver.receiver} has been in another of its listeners for {duration(ago_ms)}: "
        f"explain of that one's queue names the message"
    )
    return reason(Rule.RECEIVERS_BUSY, text=text, remedy=_stop(receiver.process, 0, ago_ms))


def _stop(process: str, since_ms: int | None, now_ms: int) -> str:
    """Nothing, where the message has been there for a moment only: it is worked on."""
    if since_ms is not None and now_ms - since_ms < HANGS_MS:
        return ""
    return (
        f"if it hangs, stop {process}: what it has goes to others. If the next one hangs in it too, it is the "
        f"message: give that one up"
    )


def behind(offset: int | None, holder: Holder | None) -> Reason:
    """An earlier message of its unit is not finished."""
    place = "earlier messages" if offset is None else f"the message at offset {offset}"
    text = f"it is behind {place} of its unit"
    return reason(Rule.BEHIND, text=text if holder is None else f"{text}, with {holder}", holder=holder)


def holder_of(told: Mapping[str, Any], process: str) -> Holder:
    """The holder, as its process tells it."""
    texts = {name: str(told.get(name, "")) for name in ("client_id", "session", "receiver", "mode")}
    return Holder(process=process, is_unread=bool(told.get("is_unread")), **texts)


def paused(rule: Rule, halt: Halt, command: str) -> Reason:
    """An operator has paused receiving or sending; the command ends it."""
    return reason(rule, more=f" by {halt.by}", since_ms=halt.since_ms, remedy=f"{command} lets it go on")


def not_admitted(partitions: int, unit_partitions: int, command: str) -> Reason:
    """Somebody added partitions, and senders of units wait for them to be admitted."""
    text = (
        f"its topic has {partitions} partitions, and its units are routed by {unit_partitions}: what is sent with a "
        f"unit is refused"
    )
    return reason(Rule.NOT_ADMITTED, text=text, remedy=f"{command} routes them anew, each when nothing of it is left")


def admitting(partitions: int, command: str) -> Reason:
    """An admission runs, or was interrupted: senders go by it already, and no send is refused."""
    text = f"an admission of {partitions} partitions has begun and not ended: sends pass meanwhile"
    return reason(Rule.NOT_ADMITTED, text=text, remedy=f"if nobody runs it any more, {command} takes it up")


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

    def tool(verb: str) -> str:
        return f"kafka-transactions.sh --bootstrap-server {bootstrap} {verb} --topic {topic} --partition {partition}"

    if not isinstance(found, str) and found.transactions:
        return [_open(what, each, bootstrap) for each in found.transactions]
    if not isinstance(found, str) and found.is_whole:
        text = f"{what} that no coordinator knows any more: it never ends by itself"
        remedy = f"{tool('abort')} --start-offset {position} ends it"
    else:
        why = f"; whose is not known: {found}" if isinstance(found, str) else ", which was not recorded lately"
        text, remedy = f"{what}{why}", f"{tool('describe-producers')} tells whose it is"
    return [reason(Rule.OPEN_TRANSACTION, text=text, remedy=remedy)]


def _open(what: str, transaction: OpenTransaction, bootstrap: str) -> Reason:
    text = (
        f"{what}: of transactional id {transaction.transactional_id!r}, producer id {transaction.producer_id}, "
        f"{transaction.state}"
    )
    is_ongoing = transaction.state == "Ongoing"
    return reason(
        Rule.OPEN_TRANSACTION,
        text=text,
        since_ms=transaction.began_at_ms,
        until_ms=transaction.began_at_ms + transaction.timeout_ms if is_ongoing else None,
        remedy=f"its producer ends it, or its coordinator some seconds after its timeout of "
        f"{transaction.timeout_ms / 1000:g} s; kafka-transactions.sh --bootstrap-server {bootstrap} describe "
        f"--transactional-id {transaction.transactional_id} tells more, and forceTerminateTransaction "
        f"--transactionalId {transaction.transactional_id} ends it now, in all its partitions: what "
        "it wrote is thrown away"
        if is_ongoing
        else "its end is decided, and brokers are about to mark it; if it stays, kafka-transactions.sh find-hanging "
        "lists it",
    )
