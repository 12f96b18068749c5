"""The calls of operators on messages that wait: move, remove, expire, give up."""

from __future__ import annotations

from dataclasses import replace

from jbm_kafka.admin.cluster.admin_core import AdminCore, patiently
from jbm_kafka.admin.cluster.recorded_settings import recorded_settings
from jbm_kafka.admin.messages.operations import MessagesReport, Wish, take_out
from jbm_kafka.admin.messages.selection import Choice
from jbm_kafka.admin.messages.sent_now import send_now
from jbm_kafka.admin.messages.units_on_hold import ReleaseReport, check_which, on_hold, release
from jbm_kafka.codec.registry_records import SubscriptionRecord
from jbm_kafka.core.channel.operator_removal import route_of_verb
from jbm_kafka.core.destination import Destination, Queue, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.sentinels import Unset
from jbm_kafka.core.settings.address_settings import AddressSettings, AddressSettingsRepository, shipped_settings
from jbm_kafka.core.settings.addresses import as_address, destination_at
from jbm_kafka.core.wrong_values import checked_int
from jbm_kafka.jms.base.arguments import checked_flag, checked_seconds
from jbm_kafka.registry.own_addresses import addresses_of


class MessageAdmin:
    """Has the owners of messages do it, or is their owner for a moment. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def take_out(self, wish: Wish, settings: AddressSettings) -> MessagesReport:
        """Move, remove, expire or dead-letter messages; `settings` hold where nobody receives."""
        with self._core.asking(f"{wish.verb.value} messages of {wish.destination}"):
            source = self._core.source(wish.destination, wish.subscription, wish.client_id)
            if wish.to is not None:
                self._core.catalog.existing(wish.to, is_target=True)
            self._core.registry.refresh()
            address = self._checked_address(wish, source, settings) if wish.dry_run else None
            report = take_out(
                wish,
                seen=lambda: self._core.seen(source, hands=self._core.hands() if wish.dry_run else None),
                owners=self._core.owners(source, settings),
                present=self._core.present(source),
                pause_of=lambda destination: self._core.registry.pauses.of(destination.name),
            )
            unused = _unused(settings, report) if report.messages and not wish.dry_run else []
            return replace(report, address=report.address or address, warnings=[*report.warnings, *unused])

    def send_now(
        self,
        destination: Queue | Topic | str,
        subscription: str | None,
        client_id: str,
        choice: Choice,
        *,
        count: int | None,
        dry_run: bool,
        timeout_s: float,
    ) -> MessagesReport:
        """Let messages go that wait for a time."""
        timeout_s = checked_seconds("timeout_s", timeout_s)
        checked_flag("dry_run", dry_run)
        if count is not None:
            checked_int("count", count, 1, None, "messages")
        with self._core.asking(f"send messages of {destination} now"):
            source = self._core.source(destination, subscription, client_id)
            return send_now(
                self._core.group(source).destination,
                choice,
                seen=lambda: self._core.seen(source),
                owners=self._core.owners(source, AddressSettings()),
                count=count,
                dry_run=dry_run,
                timeout_s=timeout_s,
            )

    def release(
        self,
        destination: Queue | Topic | str,
        subscription: str | None,
        client_id: str,
        *,
        unit: str | None,
        message_id: str | None,
        everything: bool,
        again: bool,
        dead_letter_address: Queue | Topic | str | Unset | None,
        dry_run: bool,
        timeout_s: float,
    ) -> ReleaseReport:
        """Let units go on that are on hold."""
        timeout_s = checked_seconds("timeout_s", timeout_s)
        check_which(unit, message_id, everything=checked_flag("everything", everything))
        checked_flag("again", again)
        checked_flag("dry_run", dry_run)
        with self._core.asking(f"release units of {destination}"):
            source = self._core.source(destination, subscription, client_id)
            found = patiently(lambda: on_hold(self._core.seen(source), unit=unit, message_id=message_id))
            owners = self._core.owners(source, AddressSettings(dead_letter_address=dead_letter_address))
            return release(
                self._core.group(source).destination, found, owners, again=again, dry_run=dry_run, timeout_s=timeout_s
            )

    def _checked_address(self, wish: Wish, source: Queue | SubscriptionRecord, settings: AddressSettings) -> str | None:
        """Return the address by these settings and the registry's, where nobody receives; None: no address, or the
        receivers' own."""
        name = wish.destination.name
        if self._core.admin.group_members(self._core.group(source).group_id):
            return None
        recorded = recorded_settings(self._core.registry.log, None)
        defaults = shipped_settings(addresses_of(self._core.namespace, self._core.registry.log.values()))
        resolved = AddressSettingsRepository({name: settings}, defaults, overrides=recorded).resolve(name)
        to = None if wish.to is None else wish.to.name
        address = route_of_verb(wish.verb, resolved, source=as_address(wish.destination), to=to).address
        if address is not None and not self._core.catalog.is_unused(Queue(destination_at(address).name)):
            target = destination_at(address)
            if self._core.catalog.described(target) is None:
                why = self._core.catalog.missing(target, is_target=True)
                raise InvalidDestinationError(
                    f"the dead-letter or expiry address {address!r} cannot be used: {why}",
                    destination=address,
                )
        return address


def _unused(settings: AddressSettings, report: MessagesReport) -> list[str]:
    """A warning where an address was given that others' settings overrule."""
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
