"""A reason for each rule that keeps a message: one sentence for people, and what can be done about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Final, assert_never

from jbm_kafka.admin.explain.explanation import ExplainedReceiver, Holder, Reason
from jbm_kafka.admin.explain.receiver_states import HANGS_MS, Doing, doing, how_busy, may_hang
from jbm_kafka.core.channel.blocking_rule import Rule
from jbm_kafka.core.channel.branch import name_of
from jbm_kafka.core.channel.companion_group import lost_remedy, lost_text
from jbm_kafka.core.channel.reset_effects import effects_of, offsets_before
from jbm_kafka.core.channel.start_position import Reset
from jbm_kafka.ports import FoundTransactions, OpenTransaction, Unreachable
from jbm_kafka.registry.channel_group import ChannelGroup

NO_CHANGELOG: Final = "its changelog is missing; a receiver makes it again (docs: the changelog of a queue)"
SELECTORS_MAX = 300
"""Characters of the receivers' selectors that are shown."""
NAMES_MAX = 3
"""Names or ids in one sentence."""


def _words(rule: Rule) -> tuple[str, str]:
    """The sentence of the rule and its remedy; the names in braces are the facts that `reason` is given."""
    match rule:
        case Rule.IN_HAND:
            return (
                "it is in the {where} of {holder}",
                "if it hangs, stop {process}: what it has goes to others. If the next one hangs in it too, it is the "
                "message: give that one up",
            )
        case Rule.PREPARED:
            return (
                "prepared branch {branch} of a transaction across systems (XA) has it, until the transaction's manager "
                "decides",
                "where its manager will never decide, jbm-kafka prepared resolve {branch} commit, or rollback, does; "
                "what is decided is carried out while somebody receives",
            )
        case Rule.BEHIND:
            return ("it is behind {earlier}", "")
        case Rule.DELAYED:
            return (
                "it came back, and waits for its redelivery delay{failure}",
                "to have it at once pause receiving, give its unit up, retry those dead letters, and resume",
            )
        case Rule.NOT_YET_DUE:
            return ("it was sent with a delivery delay, which is not over", "")
        case Rule.ON_HOLD:
            return (
                "it is out of attempts and on hold with its unit (on_dead_letter='hold'){failure}",
                "{command} gives it up, to the dead-letter address, and its unit goes on; with --again it is tried "
                "anew",
            )
        case Rule.NOT_SELECTED:
            return (
                "no receiver's selector chooses it{selectors}",
                "all processes of a queue select alike: end them all, and start them with selectors of which one "
                "chooses it, or with none",
            )
        case Rule.UNDELIVERABLE_HERE:
            return (
                "no other receiver may have it than those that said that it is undeliverable there",
                "start another receiver, or have those connect anew",
            )
        case Rule.EXPIRED:
            return ("its time to live is over: it leaves as soon as somebody receives", "")
        case Rule.LEAVING:
            return ("it is on its way to the dead-letter or expiry address", "")
        case Rule.IN_DOUBT:
            return ("it is acknowledged in a commit or checkpoint whose end is not known yet", "")
        case Rule.NOT_READ:
            return ("the owner of its partition has read up to offset {read_to}", "")
        case Rule.SETTLED:
            return ("it is settled (acknowledged, given up or expired), and that is not recorded yet", "")
        case Rule.READY:
            return ("nothing keeps it: it goes to the next receiver that asks", "")
        case Rule.RECEIVERS_BUSY:
            return ("it could go, but no receiver asks for one now{receivers}", "")
        case Rule.RECORDING:
            return (
                "it goes when the next checkpoint is written",
                "if it stays so, Kafka takes no checkpoint: see the log of the process that has its partition",
            )
        case Rule.NOBODY_RECEIVES:
            return ("nobody receives", "start a receiver")
        case Rule.NO_OWNER:
            return (
                "no process says that it has its partition: the group is about to give it to one{waits}",
                "wait some seconds. If it stays so, a member hangs or is stopped: end it, or wait for its session "
                "timeout (session_timeout_ms)",
            )
        case Rule.OWNER_SILENT:
            return (
                "{member} did not {say}",
                "if it has died or is frozen, the group puts it out after its session timeout (session_timeout_ms of "
                "its program; 10 s where that sets none), and others get its partitions. If it stays: see its log, "
                "and stop one that hangs; one of an older version cannot say",
            )
        case Rule.NOT_ASKED:
            return ("the processes that receive could not be asked, so what they have in hand is not known: {why}", "")
        case Rule.OPENING:
            return ("the process that has its partition reads what is recorded of it", "")
        case Rule.CLOSED:
            return ("{why}", "see the log of that process")
        case Rule.MOVING:
            return (
                "its partition is about to go to another process; handlers that run are waited for, for "
                "revoke_drain_ms at most",
                "",
            )
        case Rule.PAUSED:
            return ("receiving is paused by {by}", "{command} lets it go on")
        case Rule.SENDING_PAUSED:
            return ("sending is paused by {by}", "{command} lets it go on")
        case Rule.NOT_ADMITTED:
            return (
                "its topic has {partitions} partitions, and its units are routed by {routed}: what is sent with a "
                "unit is refused",
                "{command} routes them anew, each when nothing of it is left",
            )
        case Rule.NO_CHANGELOG:
            return (NO_CHANGELOG, "")
        case Rule.PARKED_LOST:
            return ("{lost}", "")
        case Rule.OFFSETS_RESET:
            return (
                "somebody reset the group's offsets, and the next receiver begins there: {effects}",
                "if that was not meant, undo it before anybody receives: {command}",
            )
        case Rule.NOT_HELD:
            return (
                "nothing of that is held: it was acknowledged, given up or expired, never sent here, deleted by its "
                "topic's retention.ms before anybody received it, or skipped by a reset of the group's offsets",
                "Admin.dead_letters() has what was given up, and dead_letters('ExpiryQueue') what expired",
            )
        case Rule.OPEN_TRANSACTION:
            return (
                "records from offset {position} on, {waiting} so far, wait for the end of a Kafka transaction{whose}",
                "",
            )
        case _:
            assert_never(rule)


def reason(
    rule: Rule,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    holder: Holder | None = None,
    remedy: str | None = None,
    **facts: object,
) -> Reason:
    """The reason with the sentence and the remedy of its rule, about these facts; `remedy` instead of the rule's."""
    text, advice = _words(rule)
    return Reason(
        rule=rule,
        text=text.format(holder=holder, **facts),
        since_ms=since_ms,
        until_ms=until_ms,
        holder=holder,
        remedy=advice.format(**facts) if remedy is None else remedy,
    )


def parked_lost(group: ChannelGroup, count: int | None) -> Reason:
    """The changelog lacks so many parked messages; None: it is missing, and nobody knows."""
    remedy = lost_remedy(group.group_id) if count else ""
    return reason(Rule.PARKED_LOST, lost=lost_text(group.changelog_topic, group.group_id, count), remedy=remedy)


def some(names: Sequence[str]) -> str:
    """The first names, and whether there are more."""
    return ", ".join([*names[:NAMES_MAX], *(["…"] if len(names) > NAMES_MAX else [])])


def unreadable(error: Unreachable) -> Reason:
    """Return the reason that what is held cannot be read."""
    return Reason(
        rule=Rule.IN_DOUBT,
        text=f"what is held cannot be read now, most likely as a process that died has left a checkpoint open: {error}",
        remedy="it ends within 10 s of the death: ask again. If workers die again and again, one message kills them: "
        "jbm-kafka docs runbook, A message kills its workers",
    )


def not_selected(selectors: Iterable[str]) -> Reason:
    """No receiver chooses it; `selectors`: theirs."""
    known = "; ".join(sorted({each for each in selectors if each}))
    cut = known if len(known) <= SELECTORS_MAX else f"{known[:SELECTORS_MAX]}…"
    return reason(Rule.NOT_SELECTED, selectors=f": they select {cut}" if cut else "")


def busy(receivers: Sequence[ExplainedReceiver], owner: str, *, has_idle: bool) -> Reason:
    """It could go, and no receiver of its partition's owner asks; `has_idle`: receivers of other processes wait."""
    mine = [each for each in receivers if each.process == owner]
    what = how_busy(mine)
    remedy = ""
    if any(doing(each) is Doing.NOT_CALLED for each in mine):
        remedy = "call receive of those without a call, or close them"
    elif any(may_hang(each) for each in mine):
        remedy = f"if it hangs, stop {owner}: others get its partitions"
    elif what and not has_idle:
        remedy = "more receivers or processes help, up to one process a partition, or faster handlers"
    in_owner = f": in {owner}, which has its partition, {what}" if what else ""
    return reason(Rule.RECEIVERS_BUSY, receivers=in_owner, remedy=remedy)


def in_hand(holder: Holder, since_ms: int | None, now_ms: int) -> Reason:
    """A receiver has it; where that is for a moment only, it is worked on, and nothing is advised."""
    return reason(
        Rule.IN_HAND,
        since_ms=since_ms,
        holder=holder,
        remedy=None if since_ms is None or now_ms - since_ms >= HANGS_MS else "",
        where="buffer" if holder.is_unread else "hand",
        process=holder.process,
    )


def prepared(branch: str) -> Reason:
    """A prepared branch has it; `branch`: its id."""
    return reason(Rule.PREPARED, branch=quote(name_of(branch)))


def working_on(receiver: ExplainedReceiver, now_ms: int) -> Reason:
    """Return what a receiver does while other messages wait in its buffer or in its session's hand."""
    taken, what = receiver.asks.taken, doing(receiver)
    since_ms = now_ms - (receiver.asks.ago_ms or 0) if taken is None else taken.since_ms
    about = "" if taken is None else f": {taken}"
    if what is Doing.ELSEWHERE:
        about = ": explain of that listener's queue names the message"
    return Reason(
        rule=Rule.RECEIVERS_BUSY,
        text=f"receiver {receiver.receiver} is {what.value}{about}",
        since_ms=since_ms,
        remedy=_words(Rule.IN_HAND)[1].format(process=receiver.process) if now_ms - since_ms >= HANGS_MS else "",
    )


def behind(offset: int | None, holder: Holder | None = None) -> Reason:
    """An earlier message of its unit is not finished; None: the process does not know which one."""
    earlier = "earlier messages" if offset is None else f"the message at offset {offset}"
    with_holder = "" if holder is None else f", with {holder}"
    return reason(Rule.BEHIND, holder=holder, earlier=f"{earlier} of its unit{with_holder}")


def admitting(partitions: int, command: str) -> Reason:
    """An admission runs, or was interrupted: senders go by it already, and no send is refused."""
    text = f"an admission of {partitions} partitions has begun and not ended: sends pass meanwhile"
    return Reason(rule=Rule.NOT_ADMITTED, text=text, remedy=f"if nobody runs it any more, {command} takes it up")


def offsets_reset(resets: Mapping[int, Reset], group: ChannelGroup, bootstrap: str) -> Reason:
    """Somebody reset the group's offsets, and nobody has received by them yet: so it can be undone without a trace."""
    before = offsets_before(resets)
    tool = f"kafka-consumer-groups.sh --bootstrap-server {bootstrap} --group {group.group_id} --reset-offsets --execute"
    if len(set(before.values())) == 1:
        offset = next(iter(before.values()))
        command = f"{tool} --topic {group.topic}:{','.join(map(str, before))} --to-offset {offset}"
    else:
        rows = " ".join(f"{group.topic},{place},{offset}" for place, offset in before.items())
        command = f"printf '%s\\n' {rows} > before.csv; {tool} --from-file before.csv"
    remedy = None if before else ""
    return reason(Rule.OFFSETS_RESET, effects=effects_of(resets), command=command, remedy=remedy)


def open_transactions(
    topic: str, partition: int, position: int, waiting: int, found: FoundTransactions | str, *, bootstrap: str
) -> list[Reason]:
    """Return what holds a partition back at this position.

    Args:
        waiting: records from there on.
        found: what the coordinators have recorded, or why that cannot be read.
    """
    tool, place = f"kafka-transactions.sh --bootstrap-server {bootstrap}", f"--topic {topic} --partition {partition}"
    remedy = f"{tool} describe-producers {place} shows whose it is"
    if isinstance(found, str):
        whose = f"; whose is not known: {found}"
    elif found.transactions:
        return [_open(each, position, waiting, tool) for each in found.transactions]
    elif found.is_whole:
        whose = " that no coordinator knows any more: it never ends by itself"
        remedy = f"{tool} abort {place} --start-offset {position} ends it"
    else:
        whose = ", which was not recorded lately"
    return [reason(Rule.OPEN_TRANSACTION, position=position, waiting=waiting, whose=whose, remedy=remedy)]


def _open(transaction: OpenTransaction, position: int, waiting: int, tool: str) -> Reason:
    name, timeout_ms = transaction.transactional_id, transaction.timeout_ms
    is_ongoing = transaction.state == "Ongoing"
    return reason(
        Rule.OPEN_TRANSACTION,
        position=position,
        waiting=waiting,
        whose=f": of transactional id {name!r}, producer id {transaction.producer_id}, {transaction.state}",
        since_ms=transaction.began_at_ms,
        until_ms=transaction.began_at_ms + timeout_ms if is_ongoing else None,
        remedy=f"its producer ends it, or its coordinator some seconds after its timeout of {timeout_ms / 1000:g} s; "
        f"{tool} describe --transactional-id {name} shows more, and forceTerminateTransaction --transactionalId {name} "
        "ends it now, in all its partitions: what it wrote is thrown away"
        if is_ongoing
        else "its end is decided, and brokers are about to mark it; if it stays, kafka-transactions.sh find-hanging "
        "lists it",
    )


def release_command(group: ChannelGroup, unit: str | None, message_id: str) -> str:
    """Releases what is on hold: the unit, or the message where it has none."""
    which = _option("--id", message_id) if unit is None else _option("--unit", unit)
    whose = group.subscription
    of = "" if whose is None else subscription_words(whose.name, whose.client_id)
    return f"jbm-kafka release {group.destination.name} {which}{of}"


def subscription_words(name: str, client_id: str) -> str:
    """The options that name a topic's subscription in a command that can be typed, with a space in front."""
    owner = f" {_option('--client-id', client_id)}" if client_id else ""
    return f" {_option('--subscription', name)}{owner}"


def _option(name: str, value: str) -> str:
    """An option with its value; one that begins with a dash would be taken for an option itself."""
    return f"{name}={quote(value)}" if value.startswith("-") else f"{name} {quote(value)}"
