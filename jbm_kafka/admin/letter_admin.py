"""Dead letters: found, and sent again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial

from jbm_kafka.admin.asked import letter_filter, letters_queue
from jbm_kafka.admin.asking import Asking
from jbm_kafka.admin.found_destinations import SHIPPED_DEAD_LETTERS
from jbm_kafka.admin.letter_look import LetterLook
from jbm_kafka.admin.letter_search import queues_that_end_in_letters
from jbm_kafka.admin.letters import DeadLetter, LetterFilter, LetterReason, RetryReport, letter_of
from jbm_kafka.admin.looking import as_browsed, patiently
from jbm_kafka.admin.retry import carry_out, retried_report
from jbm_kafka.admin.retry_plan import RetryPlan, RetryPlanner, planned_report
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.wrong_values import checked_int
from jbm_kafka.jms.arguments import checked_flag, checked_seconds
from jbm_kafka.jms.message import Message

RETRY_TIMEOUT_S = 10.0


class LetterAdmin(Asking):
    """Looks after what was set aside. Any thread."""

    def dead_letters(
        self,
        queue: Queue | str = SHIPPED_DEAD_LETTERS,
        *,
        origin: Queue | Topic | str | None = None,
        reason: LetterReason | None = None,
        unit: str | None = None,
        message_id: str | None = None,
        selector: str | None = None,
    ) -> Iterable[tuple[DeadLetter, Message]]:
        """The messages of a dead-letter or expiry queue, with where each was and why it left; nothing is consumed.

        Iterate what it gives; each iteration looks anew. Filters as of `retry_dead_letters`.

        Raises:
            InvalidSettingError: no message leaves for this `reason`.
            InvalidSelectorError: the selector is wrong; `position` tells the column.
            InvalidDestinationError: when the first is asked for: there is no such queue.
        """
        source = letters_queue(queue)
        wanted = letter_filter(origin, selector, reason=reason, unit=unit, message_id=message_id)
        return LetterLook(source, lambda: self._dead_letters(source, wanted))

    def _dead_letters(self, queue: Queue, wanted: LetterFilter) -> Iterator[tuple[DeadLetter, Message]]:
        with self._asking(f"list dead letters of {queue}"):
            if not self._found.is_unused(queue):
                self._found.with_letters(queue)
                for seen in self._seen(queue):
                    letter = letter_of(seen.record)
                    if wanted.matches(letter, seen.record):
                        yield letter, as_browsed(seen, queue)

    def queues_with_dead_letters(self, *, queues_max: int = 50) -> list[Queue]:
        """Queues that hold dead letters or expired messages, found by a quick look at what was sent to each last.

        So it misses one where many other messages follow; and it looks into the first `queues_max` queues by name.
        """
        checked_int("queues_max", queues_max, 1, None, "queues")
        with self._asking("look for dead letters"), closing(self._kafka.log_reader()) as reader:
            topics = {each.kafka_topic(self._namespace): each for each in self._found.queues()[:queues_max]}
            found = queues_that_end_in_letters(list(topics), admin=self._admin, reader=reader)
            return [topics[topic] for topic in found if self._holds_letters(topics[topic])]

    def _holds_letters(self, queue: Queue) -> bool:
        return any(letter_of(seen.record).reason is not None for seen in self._seen(queue))

    def retry_dead_letters(
        self,
        queue: Queue | str = SHIPPED_DEAD_LETTERS,
        *,
        origin: Queue | Topic | str | None = None,
        reason: LetterReason | None = None,
        unit: str | None = None,
        message_id: str | None = None,
        selector: str | None = None,
        count: int | None = None,
        dry_run: bool = False,
        timeout_s: float = RETRY_TIMEOUT_S,
    ) -> RetryReport:
        """Send dead letters of `queue` to where they came from: of those that match, the `count` oldest, or all.

        One that a subscription of a topic gave up comes to that subscription alone (decision 51).

        What is sent leaves `queue` in the same transaction; what is not stays, uncounted, in its place.
        Letters that come meanwhile are left for another time. It ends when none came for `timeout_s` seconds.

        Args:
            origin: only what came from there: a queue, or `Topic(…)` or "topic:…".
            reason: only what left for this reason, as `dead_letters` tells it.
            message_id: only what has this id; ids may repeat.
            selector: only what it chooses of the dead letters' properties (docs/selectors.md).
            dry_run: nothing is received nor sent; the report has what would be.

        Raises:
            InvalidDestinationError: there is no such queue.
            InvalidSettingError: no message leaves for this `reason`.
            InvalidSelectorError: the selector is wrong; `position` tells the column.
            TransactionInDoubtError: nobody knows whether the latest batch, a few hundred, was sent; it was sent whole
                and left, or neither. Retry again: what was not sent is still there.
        """
        source, timeout_s = letters_queue(queue), checked_seconds("timeout_s", timeout_s)
        checked_flag("dry_run", dry_run)
        if count is not None:
            checked_int("count", count, 1, None, "letters")
        asked = letter_filter(origin, selector, reason=reason, unit=unit, message_id=message_id)
        with self._asking(f"retry dead letters of {source}"), closing(self._kafka.log_reader()) as reader:
            if self._found.is_unused(source):
                return planned_report(source, RetryPlan(), is_dry_run=dry_run)
            self._found.with_letters(source)
            subscriptions_of = self._found.subscriptions_of
            planner = partial(RetryPlanner, source, admin=self._admin, reader=reader, subscriptions_of=subscriptions_of)
            looking = planner(info_of=self._found.info_of)
            plan = patiently(lambda: looking.plan((seen.record for seen in self._seen(source)), asked, count))
            if dry_run or not plan.letters:
                return planned_report(source, plan, is_dry_run=dry_run)
            with self._connections.open() as connection:
                sending = planner(info_of=connection._core.provider.ensure)
                done = carry_out(connection, source, plan.letters, sending.outgoing, timeout_s)
            return retried_report(done, plan, lambda: self._seen(source), timeout_s)
