"""Looks into the store of large bodies, and removes what nobody needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import dataclass

from jbm_kafka.admin.bodies.named_bodies import names_in_kafka
from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.client.bodies.large_bodies import LargeBodies
from jbm_kafka.codec.large_body import kept_at_ms
from jbm_kafka.codec.reader_record import SPARK_KIND
from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import (
    CorruptRecordError,
    IllegalStateError,
    InvalidSettingError,
    JMSError,
    LargeBodyError,
)
from jbm_kafka.core.wrong_values import wrong_type, wrong_value
from jbm_kafka.jms.base.arguments import checked_seconds
from jbm_kafka.registry.readers import registered_readers

UNNAMED_AFTER_S = 86_400.0
"""So old a body is at least that is removed because nothing names it, unless somebody says otherwise."""
UNNAMED_LEAST_S = 3_600.0
"""Less nobody may say: a body is kept before its record is written, which a transaction may do much later."""


@dataclass(frozen=True, slots=True)
class StoredLargeBody:
    """A body in the store."""

    name: str
    """As the header `jbm.large-body` of its record has it."""
    size_bytes: int
    """How large it is."""
    kept_at_ms: int
    """When it was kept."""
    is_named: bool | None
    """Something in Kafka names it; None: nobody looked."""


@dataclass(frozen=True, slots=True)
class BodiesRemoved:
    """The bodies that were removed from the store, or would be."""

    removed: tuple[StoredLargeBody, ...]
    """These."""
    kept: int
    """So many are left."""
    dry_run: bool
    """Nothing was removed."""

    @property
    def removed_bytes(self) -> int:
        """How many bytes they had."""
        return sum(each.size_bytes for each in self.removed)


class BodiesAdmin:
    """The administration of one store. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def bodies(self, *, with_names: bool) -> list[StoredLargeBody]:
        """All that the store has, oldest first."""
        with self._core.asking("list large bodies"):
            found = self._stored(self._bodies())
            return self._with_names(found) if with_names else found

    def remove(
        self,
        older_than_s: float | None,
        *,
        unnamed: bool,
        named_elsewhere: Iterable[str] | None,
        dry_run: bool,
    ) -> BodiesRemoved:
        """Remove by age, or what is not named and old enough."""
        age_s = _checked_age_s(older_than_s, unnamed=unnamed)
        others = _checked_names(named_elsewhere, unnamed=unnamed)
        with self._core.asking("remove large bodies"):
            bodies = self._bodies()
            if unnamed and others is None:
                self._check_no_archives()
            before_ms = self._core.cluster.clock.now_ms() - round(age_s * 1000)
            found = self._stored(bodies)
            old = [each for each in found if each.kept_at_ms < before_ms]
            if unnamed and old:  # the store was listed before the logs are read, so what came since is not among them
                old = [each for each in self._with_names(old) if not each.is_named and each.name not in (others or ())]
            for each in () if dry_run else old:
                _remove(bodies, each.name)
        return BodiesRemoved(tuple(old), len(found) - len(old), dry_run)

    def _bodies(self) -> LargeBodies:
        if self._core.bodies is None:
            raise InvalidSettingError(
                "there is no store of large bodies: give large_bodies to Admin, as senders and receivers have it; to "
                "commands JBM_LARGE_BODIES=…",
                setting="large_bodies",
            )
        return self._core.bodies

    def _stored(self, bodies: LargeBodies) -> list[StoredLargeBody]:
        try:
            found = list(bodies.store.list())
        except Exception as error:  # whatever the store raises
            raise LargeBodyError(f"{bodies!r} cannot be listed: {failure_text(error)}") from error
        timed = [(kept_at_ms(each.name), each) for each in found]
        ours = [StoredLargeBody(each.name, each.size_bytes, at_ms, None) for at_ms, each in timed if at_ms is not None]
        return sorted(ours, key=lambda each: (each.kept_at_ms, each.name))

    def _with_names(self, found: list[StoredLargeBody]) -> list[StoredLargeBody]:
        try:
            with closing(self._core.kafka.log_reader()) as reader:
                names = names_in_kafka(self._core.admin, reader)
        except CorruptRecordError as error:
            raise JMSError(f"what Kafka names cannot be known: {error}; nothing is removed") from None
        return [StoredLargeBody(each.name, each.size_bytes, each.kept_at_ms, each.name in names) for each in found]

    def _check_no_archives(self) -> None:
        archives = [each.name for each in registered_readers(self._core.registry.log) if each.kind == SPARK_KIND]
        if archives:
            raise IllegalStateError(
                f"readers of Spark are registered ({', '.join(sorted(archives))}), whose archives may name bodies that "
                f"Kafka names no more: give the names that they have, as named_elsewhere=… or --named-in FILE (none: "
                f"an empty one)"
            )


def _remove(bodies: LargeBodies, name: str) -> None:
    try:
        bodies.store.remove(name)
    except Exception as error:  # whatever the store raises
        raise LargeBodyError(
            f"the body {name} cannot be removed from {bodies!r}: {failure_text(error)}", body_name=name
        ) from error


def _checked_age_s(older_than_s: float | None, *, unnamed: bool) -> float:
    if older_than_s is None:
        if not unnamed:
            rule = "say which bodies: older_than_s for all of that age, unnamed=True for those that nothing names"
            raise wrong_value("older_than_s", older_than_s, rule)
        return UNNAMED_AFTER_S
    age_s = checked_seconds("older_than_s", older_than_s)
    if unnamed and age_s < UNNAMED_LEAST_S:
        rule = f"with unnamed it is at least {UNNAMED_LEAST_S:g}: a body is kept before its record is written"
        raise wrong_value("older_than_s", older_than_s, rule)
    return age_s


def _checked_names(given: Iterable[str] | None, *, unnamed: bool) -> Collection[str] | None:
    if given is None:
        return None
    if not unnamed:
        raise wrong_value("named_elsewhere", given, "it says what to keep with unnamed=True; leave it out")
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise wrong_type("named_elsewhere", given, "it is a list or a set of names of bodies")
    names = set(given)
    for each in names:
        if not isinstance(each, str):
            raise wrong_type("named_elsewhere", each, "each is a str, the name of a body")
    return names
