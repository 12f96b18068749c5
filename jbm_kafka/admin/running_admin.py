"""What is changed while processes run: settings, pauses, units on hold."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from jbm_kafka.admin.address_kinds import absent_addresses, check_kinds, unheard_addresses
from jbm_kafka.admin.asking import Asking
from jbm_kafka.admin.looking import patiently
from jbm_kafka.admin.pausing import FOLLOW_S, What, by_whom, change, parts_of
from jbm_kafka.admin.recorded_settings import (
    check_settings,
    own_addresses,
    recorded_settings,
    set_settings,
    unset_settings,
)
from jbm_kafka.admin.units_on_hold import ReleaseReport, check_which, on_hold, release
from jbm_kafka.codec.pause_record import Halt, Pause
from jbm_kafka.core.address_settings import AddressSettings
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.jms.arguments import checked_flag, checked_seconds

log = logging.getLogger(__name__)

ASK_TIMEOUT_S = 60.0
"""For answers of those who receive. One who has just died is found out by then, and what he had is with others."""


class RunningAdmin(Asking):
    """Tells running processes what to do. Any thread."""

    def address_settings(self, pattern: str | None = None) -> dict[str, AddressSettings]:
        """What the registry says of settings, by pattern, the least specific first; of one pattern, only that.

        It wins over what factories say. No other process's factory is known here.

        Raises:
            InvalidSettingError: the pattern is none.
            JMSError: a newer version wrote what cannot be read here.
        """
        with self._asking("look up address settings"):
            return recorded_settings(self._registry.log, pattern)

    def set_address_settings(self, pattern: str, settings: AddressSettings) -> None:
        """Record settings for the destinations that the pattern matches; running processes go by them a second later.

        They win over every factory's, setting by setting, and hold for the next failure, hand-over or send: what was
        counted stays counted. What `settings` does not speak of stays as it is recorded; None unsets what a wider
        pattern or a factory says. `partitions` is for destinations that are made from then on. What is legal and
        loses messages is warned of in the log: an address that is its own or not there, a topic without a subscription.

        Raises:
            InvalidSettingError: the pattern is none, a number too large, or an address names a queue where there is a
                topic of that name, or a topic where there is a queue.
        """
        with self._asking(f"set address settings of {shown(pattern)}"):
            check_settings(pattern, settings)
            check_kinds(pattern, settings, self._found, self._registry)
            absent = absent_addresses(pattern, settings, self._found)  # before: then running workers make it
            set_settings(self._registry.log, pattern, settings)
            unheard = unheard_addresses(settings, self._found)
        for warning in (*own_addresses(pattern, settings), *absent, *unheard):
            log.warning("%s", warning)

    def unset_address_settings(self, pattern: str, *names: str) -> bool:
        """Record nothing any more for the pattern, or nothing of the named settings: what others say holds again.

        False: nothing of that was recorded.

        Raises:
            InvalidSettingError: the pattern is none, or there is no such setting.
        """
        with self._asking(f"unset address settings of {shown(pattern)}"):
            return unset_settings(self._registry.log, pattern, names)

    def pause(
        self, destination: Queue | Topic | str, what: What = "both", *, by: str | None = None, wait_s: float = FOLLOW_S
    ) -> Pause:
        """Pause sending to it ("production" or "sending"), receiving from it ("consumption" or "receiving"), or both,
        until `resume`.

        Every process follows, also one that starts later; `wait_s` seconds go by first, so that all of them have heard.
        In memory it returns as soon as they have.

        Sends raise IllegalStateError. Receivers get nothing more; what they have in hand they go on with.

        Args:
            by: who does, for people, up to 100 characters on one line; without it user and host of this process.

        Raises:
            InvalidDestinationError: there is no such queue or topic.
            InvalidSettingError: `what`, `by` or `wait_s` cannot be so.
        """
        halt = Halt(by_whom(by), self._cluster.clock.now_ms())
        return self._change_pause("pause", destination, dict.fromkeys(parts_of(what), halt), wait_s)

    def resume(self, destination: Queue | Topic | str, what: What = "both", *, wait_s: float = 0.0) -> Pause:
        """Let go on what was paused; processes hear it within a second or two. What is still paused.

        Raises:
            InvalidDestinationError: there is no such queue or topic.
            InvalidSettingError: `what` or `wait_s` cannot be so.
        """
        return self._change_pause("resume", destination, dict.fromkeys(parts_of(what)), wait_s)

    def paused(self, destination: Queue | Topic | str) -> Pause:
        """What of it is paused, by whom and since when.

        Raises:
            InvalidDestinationError: there is no such queue or topic.
        """
        with self._asking(f"look whether {destination} is paused"):
            return self._registry.pauses.of(self._found.named(destination).name)

    def _change_pause(
        self, verb: str, destination: Queue | Topic | str, halts: Mapping[str, Halt | None], wait_s: float
    ) -> Pause:
        wait_s = checked_seconds("wait_s", wait_s)
        with self._asking(f"{verb} {destination}"):
            pause = change(self._registry.log, self._found.named(destination), halts)
            if self._cluster.heard is not None and wait_s:
                self._cluster.heard(wait_s)
                return pause
        time.sleep(wait_s)  # out here: a wait is nothing that a cluster refuses
        return pause

    def release(
        self,
        destination: Queue | Topic | str,
        unit: str | None = None,
        *,
        subscription: str | None = None,
        client_id: str = "",
        message_id: str | None = None,
        everything: bool = False,
        again: bool = False,
        dead_letter_address: Queue | Topic | str | Unset | None = UNSET,
        dry_run: bool = False,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> ReleaseReport:
        """Let units go on that are on hold (`on_dead_letter="hold"`): this unit, that of this message, or
        `everything`; one of them is to be given.

        The messages that hold them leave for the dead-letter address. The processes that receive do it; where none
        does, this one joins the group for a moment. When it returns it is recorded. Again: what went on is left alone.

        Args:
            subscription: of the topic that is given, this subscription's units; `client_id` where it belongs to one.
            everything: all that is on hold there.
            again: they are not given up, but tried anew, with all their attempts.
            dead_letter_address: where they go when no process receives and the registry has no setting for it
                (`set_address_settings`); else it goes by the settings. Not given: DLQ; None: they are removed.
            dry_run: nothing is released; the report has what would be.

        Raises:
            InvalidSettingError: it is not said which, or `everything` and a unit are.
            InvalidDestinationError: there is no such queue, or no such subscription.
            JMSError: not every process that receives has answered, and some may have released what they have: again.
        """
        timeout_s = checked_seconds("timeout_s", timeout_s)
        check_which(unit, message_id, everything=checked_flag("everything", everything))
        checked_flag("again", again)
        checked_flag("dry_run", dry_run)
        with self._asking(f"release units of {destination}"):
            source = self._source(destination, subscription, client_id)
            found = patiently(lambda: on_hold(self._seen(source), unit=unit, message_id=message_id))
            owners = self._owners(source, AddressSettings(dead_letter_address=dead_letter_address))
            return release(
                self._group(source).destination, found, owners, again=again, dry_run=dry_run, timeout_s=timeout_s
            )
