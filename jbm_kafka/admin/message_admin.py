"""What operators do to messages that wait: move, remove, expire, give up."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from jbm_kafka.admin.asked import queue_of
from jbm_kafka.admin.asking import Asking
from jbm_kafka.admin.chosen_messages import Order, choice_of
from jbm_kafka.admin.message_verbs import MessagesReport, Wish, take_out, wish_of
from jbm_kafka.admin.recorded_settings import recorded_settings
from jbm_kafka.admin.running_admin import ASK_TIMEOUT_S
from jbm_kafka.codec.registry_records import SubscriptionRecord
from jbm_kafka.core.address_settings import AddressSettings, AddressSettingsRepository
from jbm_kafka.core.addresses import as_address, destination_at
from jbm_kafka.core.destination import Destination, Queue, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.operator_removal import Verb, route_of_verb
from jbm_kafka.core.sentinels import UNSET, Unset


class MessageAdmin(Asking):
    """Has the owners of messages do it, or is their owner for a moment. Any thread."""

    def move(
        self,
        destination: Queue | Topic | str,
        to: Queue | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        selector: str | None = None,
        unit: str | None = None,
        message_id: str | Collection[str] | None = None,
        everything: bool = False,
        order: Order = "log",
        count: int | None = None,
        split_units: bool = False,
        dry_run: bool = False,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> MessagesReport:
        """Move messages to another queue: each leaves in the transaction that writes it there.

        Meant are those of the unit, with one of the ids, chosen by the selector: all of that which is given; or
        everything. They stay as they are, but for attempts, which are counted anew, and duplicate ids, which go. What
        somebody works on stays with him, and what is behind it in its unit stays too; the report tells.

        A unit keeps its order when it is moved whole while both queues are paused (`pause`); else a warning says so.
        Whoever receives from the queue does it; when nobody does, this process joins its group for a moment.

        Args:
            subscription: of the topic that is given, what this subscription has; `client_id` where it belongs to one.
                The other subscriptions keep their copies, and the topic's log is as it was.
            order: in which they are sent: as in the "log", as they were "sent", or by "priority". Messages of a unit
                stay in theirs, and the order holds within each partition.
            count: so many of them at most, the first in that order.
            split_units: also when only some messages of a unit are meant.
            dry_run: nothing is moved; the report has what would be, and those who receive are asked what they work on.

        Raises:
            InvalidDestinationError: a queue or the subscription is not there, or both queues are the same.
            InvalidSettingError: it is not said which messages are meant.
            InvalidSelectorError: the selector is wrong; `position` tells the column.
            OrderError: units would be split; nothing is done.
        """
        target = queue_of(to, "to")
        wish = wish_of(
            Verb.MOVE, destination, subscription, client_id,
            choice_of(selector, unit, message_id, everything=everything), to=target, order=order, count=count,
            splits_units=split_units, dry_run=dry_run, timeout_s=timeout_s,
        )  # fmt: skip
        if target == wish.destination:
            raise InvalidDestinationError(f"{target}: its messages are there already; name another queue")
        return self._take_out(wish, AddressSettings())

    def remove(
        self,
        destination: Queue | Topic | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        selector: str | None = None,
        unit: str | None = None,
        message_id: str | Collection[str] | None = None,
        everything: bool = False,
        count: int | None = None,
        dry_run: bool = False,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> MessagesReport:
        """Remove messages for good, but for those that somebody works on. As `move` in all else.

        Raises:
            InvalidDestinationError, InvalidSettingError, InvalidSelectorError: as of `move`.
        """
        choice = choice_of(selector, unit, message_id, everything=everything)
        wish = wish_of(
            Verb.REMOVE, destination, subscription, client_id, choice, count=count, dry_run=dry_run, timeout_s=timeout_s
        )
        return self._take_out(wish, AddressSettings())

    def expire(
        self,
        destination: Queue | Topic | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        selector: str | None = None,
        unit: str | None = None,
        message_id: str | Collection[str] | None = None,
        everything: bool = False,
        count: int | None = None,
        expiry_address: str | Queue | Topic | Unset | None = UNSET,
        dry_run: bool = False,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> MessagesReport:
        """Let messages expire now: they go to the expiry address, or are removed where there is none.

        As `move` in all else. `expiry_address` is what counts when nobody receives and the registry has no setting for
        it; not given: ExpiryQueue. Else it goes by the settings.

        Raises:
            InvalidDestinationError, InvalidSettingError, InvalidSelectorError: as of `move`.
        """
        choice = choice_of(selector, unit, message_id, everything=everything)
        wish = wish_of(
            Verb.EXPIRE, destination, subscription, client_id, choice, count=count, dry_run=dry_run, timeout_s=timeout_s
        )
        return self._take_out(wish, AddressSettings(expiry_address=expiry_address))

    def send_to_dead_letter(
        self,
        destination: Queue | Topic | str,
        *,
        subscription: str | None = None,
        client_id: str = "",
        selector: str | None = None,
        unit: str | None = None,
        message_id: str | Collection[str] | None = None,
        everything: bool = False,
        count: int | None = None,
        dead_letter_address: str | Queue | Topic | Unset | None = UNSET,
        dry_run: bool = False,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> MessagesReport:
        """Give messages up now: they go to the dead-letter address with the reason "operator".

        As `move` in all else. `dead_letter_address` is what counts when nobody receives and the registry has no setting
        for it; not given: DLQ. Else it goes by the settings.

        Raises:
            InvalidDestinationError, InvalidSettingError, InvalidSelectorError: as of `move`.
        """
        choice = choice_of(selector, unit, message_id, everything=everything)
        wish = wish_of(
            Verb.DEAD_LETTER,
            destination,
            subscription,
            client_id,
            choice,
            count=count,
            dry_run=dry_run,
            timeout_s=timeout_s,
        )
        return self._take_out(wish, AddressSettings(dead_letter_address=dead_letter_address))

    def _take_out(self, wish: Wish, settings: AddressSettings) -> MessagesReport:
        with self._asking(f"{wish.verb.value} messages of {wish.destination}"):
            source = self._source(wish.destination, wish.subscription, wish.client_id)
            if wish.to is not None:
                self._found.existing(wish.to, is_target=True)
            self._registry.refresh()
            address = self._checked_address(wish, source, settings) if wish.dry_run else None
            report = take_out(
                wish,
                seen=lambda: self._seen(source, hands=self._hands() if wish.dry_run else None),
                owners=self._owners(source, settings),
                present=self._present(source),
                pause_of=lambda destination: self._registry.pauses.of(destination.name),
            )
            unused = _unused(settings, report) if report.messages and not wish.dry_run else []
            return replace(report, address=report.address or address, warnings=[*report.warnings, *unused])

    def _checked_address(self, wish: Wish, source: Queue | SubscriptionRecord, settings: AddressSettings) -> str | None:
        """As who becomes the owner finds it, where nobody receives; None: there is none, or it is that of who does."""
        name = wish.destination.name
        if self._admin.group_members(self._group(source).group_id):
            return None
        recorded = recorded_settings(self._registry.log, None)
        resolved = AddressSettingsRepository({name: settings}, overrides=recorded).resolve(name)
        to = None if wish.to is None else wish.to.name
        address = route_of_verb(wish.verb, resolved, source=as_address(wish.destination), to=to).address
        if address is not None and not self._found.is_unused(Queue(destination_at(address).name)):
            target = destination_at(address)
            if self._found.described(target) is None:
                why = self._found.missing(target, is_target=True)
                raise InvalidDestinationError(
                    f"the dead-letter or expiry address {address!r} cannot be used: {why}",
                    destination=address,
                )
        return address


def _unused(settings: AddressSettings, report: MessagesReport) -> list[str]:
    """What is told where an address was given that others' settings overrule."""
    given = {"expiry_address": settings.expiry_address, "dead_letter_address": settings.dead_letter_address}
    for name, value in given.items():
        if not isinstance(value, Unset) and _place(value) != _place(report.address):
            used = "nowhere" if report.address is None else f"to {report.address}"
            return [
                f"{name}={value!r} was not used, they went {used}: processes receive from {report.queue}, or the "
                f"registry has a setting, and that holds; Admin.set_address_settings changes it"
            ]
    return []


def _place(address: Destination | str | None) -> str | None:
    return None if address is None else str(destination_at(address) if isinstance(address, str) else address)
