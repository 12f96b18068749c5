"""Takes messages out of an archive for good, and what is archived about them.

The messages go first, part by part, each in one step. An event goes when no message that it is about is left; so a call
that was killed in between is finished by the next one, which needs to remember nothing.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from jbm_spark.extra import pyspark_missing

try:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import Column, DataFrame, SparkSession, Window
    from pyspark.sql import functions as F  # noqa: N812
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.admin.pausing import operator_name
from jbm_kafka.core.channel.log_id import INCARNATION
from jbm_kafka.core.destination import Queue
from jbm_spark.archiving.archive_event_rows import EVENT_KEY, EVENTS_SCHEMA
from jbm_spark.archiving.archive_files import RowShape, read_rows, rewrite
from jbm_spark.archiving.archive_folder import (
    DESTINATION,
    EVENTS,
    MESSAGES,
    ArchiveIdentity,
    ArchivePath,
    archive_path,
    locked_archive,
    read_identity,
)
from jbm_spark.archiving.archive_rows import MESSAGE_KEY, MESSAGES_SCHEMA, message_rows
from jbm_spark.archiving.archive_tables import archive_table, archived_table
from jbm_spark.archiving.manifest import Erasure, compacted
from jbm_spark.archiving.table_folder import TableFolder
from jbm_spark.call_checks import check_session
from jbm_spark.causes import cause_line
from jbm_spark.chosen_rows import chosen_rows
from jbm_spark.errors import ArchiveError, OptionRefusedError
from jbm_spark.known_values import known_rows

DAY_MS = 86_400_000
_VALUE = re.compile(
    r"""`(?:[^`]|``)*`|(?<=\b[rR])'[^']*'|(?<=\b[rR])"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|"""
    r"""--(?:\\\n|[^\r\n])*|/\*(?:(?!/\*|\*/).|/\*(?:(?!/\*|\*/).)*\*/)*\*/|/\*.*|\b\d[\w.]*""",
    re.DOTALL,
)
"""What a condition of SQL can have of the content: texts, numbers and remarks; a name in backticks, to be left."""
_FILE = "erased_from"
ELSEWHERE = (
    "the log of {whose} in Kafka has what is not settled, and what is settled until it is deleted: jbm-kafka remove, "
    "then jbm-kafka truncate; brokers free files that are full, or as old as segment.ms says",
    "the changelog has of messages that are held the unit, the last error and the attempts, and parked ones whole: it "
    "ends when they are settled and Kafka has compacted it",
    "jbm.events has units, times and errors, no bodies: Kafka deletes it after seven days",
    "dead-letter and expiry queues have copies: jbm-kafka remove there, and jbm-spark erase in their archives",
    "bodies that are kept beside Kafka stay in their store: jbm-kafka bodies remove --unnamed",
    "queues that messages were sent on or replayed to, exported files, rejects, and backups of this disk: nobody here "
    "knows them",
)
"""What an erasure does not reach, and how it ends there."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erasure took out of an archive; of a dry run, would."""

    folder: str
    what: str
    """What was asked for, as the archive records it."""
    messages: int
    events: int
    messages_left: int
    is_dry_run: bool
    stays_elsewhere: Sequence[str]
    """Where else there may be something of it, and how it ends there; a line each."""

    @property
    def has_violations(self) -> bool:
        """It looks for none."""
        return False

    @property
    def counts(self) -> str:
        """The counts of both, for people."""
        return f"{_several(self.messages, 'message')} and {_several(self.events, 'event')}"

    def text(self) -> str:
        """For people."""
        done = "would be erased" if self.is_dry_run else "erased"
        counts = f"{self.counts} of {self.folder} {done}; {_several(self.messages_left, 'message')} left"
        return "\n".join([counts, "not reached:", *(f"- {line}" for line in self.stays_elsewhere)])


@dataclass(frozen=True, slots=True)
class Choice:
    """The messages that are meant: those of which all that is given is so."""

    unit: str | None
    where: str | None
    before_ms: int | None
    """Sent before."""
    queue: str | None

    def told(self, archive_id: str) -> str:
        """For the archive's record, which is to have nothing of what was erased: a unit is often a person's name or
        number. Who knows the unit or the condition finds the same digest, and so the proof that it was erased."""
        parts = []
        if self.unit is not None:
            parts.append(f"unit {digest(archive_id, self.unit)}")
        if self.where is not None:
            parts.append(f"where {without_values(self.where)} ({digest(archive_id, self.where)})")
        if self.before_ms is not None:
            sent = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.before_ms / 1000))
            parts.append(f"sent before {sent}")
        if self.queue is not None:
            parts.append(f"of queue:{self.queue}")
        return ", ".join(parts)


def digest(archive_id: str, text: str) -> str:
    """Return the digest of a unit or a condition as an archive records it; no two archives have the same one."""
    return f"sha256:{hashlib.sha256(f'{archive_id}:{text}'.encode()).hexdigest()}"


def without_values(where: str) -> str:
    """Return the condition with `?` for each text, number and remark, on one line."""
    masked = _VALUE.sub(lambda found: found[0] if found[0].startswith("`") else "?", where)
    return " ".join(masked.split())


def erasures(folder: str | os.PathLike[str]) -> list[Erasure]:
    """Return what the archive records of its erasures, of messages first and then of events.

    Raises:
        ArchiveError: it is no archive, or batches of it are missing.
    """
    path = archive_path(folder)
    tables = (archived_table(path, name) for name in (MESSAGES, EVENTS))
    return [each for table in tables for manifest in table.manifests() for each in manifest.erased]


def erase(
    spark: SparkSession,
    folder: str | os.PathLike[str],
    *,
    unit: str | None = None,
    where: str | None = None,
    older_than_days: int | None = None,
    queue: str | None = None,
    by: str | None = None,
    dry_run: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Erased:
    """Take messages out of an archive for good, with their events: those of which all that is given is so.

    The archive's place in Kafka's log stays, so nothing of it is archived again. Killed at any moment, it is finished
    by the same call once more. A reader that began before may fail, because files have gone.

    Args:
        unit: of this unit of order.
        where: an expression of SQL over the columns of `messages`.
        older_than_days: sent so many days ago, or earlier.
        queue: of an archive of many queues, only of this one.
        by: the operator, for the record; None: user and host of this process.
        dry_run: count, and change nothing.
        tell: is called with a line when a part is ready to be replaced, and when it is.

    Raises:
        OptionRefusedError: nothing says what is meant, or `where` is no such expression; nothing has changed.
        InvalidSettingError: `by` is no name.
        ArchiveError: it is no archive, another job writes to it, batches are missing, it has nothing of the queue, or
            files cannot be exchanged here. Parts may be erased: the same call goes on.
    """
    check_session(spark)
    # Spark names files without `..`, and so do we.
    path, now_ms = archive_path(folder), int(time.time() * 1000)
    if isinstance(path, Path):
        path = Path(os.path.normpath(path))
    identity = read_identity(path)
    before_ms = None if older_than_days is None else now_ms - older_than_days * DAY_MS
    choice = checked_choice(folder, identity, unit=unit, where=where, before_ms=before_ms, queue=queue)
    what = choice.told(identity.archive_id)
    run = _Run(spark, path, identity, choice, Erasure(now_ms, operator_name(by), what, 0), tell or (lambda line: None))
    try:
        if dry_run:
            messages, events = run.count()
        else:
            with locked_archive(path, destination=identity.destination, cluster_id=identity.cluster_id):
                messages, events = run.erase()
    except (PySparkException, Py4JError) as error:
        raise ArchiveError(f"archive {path}: {cause_line(error)}; call it again to go on") from None
    left = sum(manifest.rows for manifest in run.table(MESSAGES).manifests()) - (messages if dry_run else 0)
    elsewhere = tuple(line.format(whose=identity.destination) for line in ELSEWHERE)
    return Erased(os.fspath(folder), what, messages, events, left, dry_run, elsewhere)


def checked_choice(
    folder: object, identity: ArchiveIdentity, *, unit: str | None, where: str | None, before_ms: int | None,
    queue: str | None,
) -> Choice:  # fmt: skip
    """Return what is meant.

    Raises:
        OptionRefusedError, ArchiveError: as `erase`.
    """
    if unit == "" or where == "":
        raise OptionRefusedError("unit and where are not empty: leave out what does not matter")
    if unit is not None and where is not None:
        raise OptionRefusedError(
            "name a unit or a condition, not both: unit_of_order is a column of the condition, too"
        )
    if unit is None and where is None and before_ms is None:
        raise OptionRefusedError("say what is meant: a unit, a condition of SQL, or an age in days")
    if queue is not None and not (identity.is_of_many and identity.has(Queue(queue))):
        raise ArchiveError(f"archive {folder} is that of {identity.destination}, and has nothing of queue {queue}")
    return Choice(unit, where, before_ms, queue)


@dataclass(frozen=True, slots=True)
class _Run:
    """One call."""

    spark: SparkSession
    path: ArchivePath
    identity: ArchiveIdentity
    choice: Choice
    record: Erasure
    """What every batch records, but for the count."""
    tell: Callable[[str], None]

    def table(self, name: str) -> TableFolder:
        """One of the two."""
        return archive_table(self.path, name, self.identity)

    def count(self) -> tuple[int, int]:
        """Messages and events that would go."""
        messages = self.messages_meant()
        left = _without(self._rows(MESSAGES, MESSAGES_SCHEMA), messages, MESSAGE_KEY)
        return messages.count(), self.events_meant(left).count()

    def erase(self) -> tuple[int, int]:
        """Messages and events that went."""
        by = (DESTINATION,) if self.identity.is_of_many else ()
        messages = self._replace(MESSAGES, RowShape(MESSAGES_SCHEMA, MESSAGE_KEY, by), self.messages_meant())
        meant = self.events_meant(self._rows(MESSAGES, MESSAGES_SCHEMA))
        events = self._replace(EVENTS, RowShape(EVENTS_SCHEMA, EVENT_KEY, by), meant)
        for name in (MESSAGES, EVENTS):
            self.table(name).remove_replaced()
        return messages, events

    def messages_meant(self) -> DataFrame:
        """Their places, and the files that they are in."""
        rows = self._rows(MESSAGES, MESSAGES_SCHEMA)
        meant = message_rows(rows, *(each for each in (*MESSAGE_KEY, _FILE, DESTINATION) if each in rows.columns))
        for is_so in self._of_all(meant):
            meant = meant.where(is_so)
        if self.choice.unit is not None:
            meant = meant.where(F.col("unit_of_order") == self.choice.unit)
        if self.choice.where is not None:
            meant = chosen_rows(meant, self.choice.where)
        return meant.select(*MESSAGE_KEY, _FILE)

    def events_meant(self, left: DataFrame) -> DataFrame:
        """Their places and files: none of the messages that they are about is left, and one was archived, or they are
        meant by themselves."""
        rows = self._rows(EVENTS, EVENTS_SCHEMA)
        asked = [*self._of_all(rows)]
        if self.choice.unit is not None:
            asked.append(F.col("unit_of_order") == self.choice.unit)
        is_asked = F.lit(self.choice.where is None)
        for is_so in asked:
            is_asked &= is_so
        is_ours = self._of_queue(rows)
        # Events of a subscription tell its incarnation behind the topic's id.
        place = [F.regexp_replace("topic_id", INCARNATION, "").alias("topic_id"), F.col("partition"), F.col("offset")]
        marks = [is_asked.alias("is_asked"), is_ours.alias("is_ours"), F.lit(True).alias("is_event")]
        told = rows.select(*place, "last_offset", *EVENT_KEY, _FILE, *marks)
        both = told.unionByName(left.select(*place, F.lit(False).alias("is_event")), allowMissingColumns=True)
        # One pass from the end of each log: of each place the next message that is left.
        onward = Window.partitionBy("topic_id", "partition").orderBy(F.desc("offset"), "is_event")
        onward = onward.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        next_left = F.last(F.when(~F.col("is_event"), F.col("offset")), ignorenulls=True).over(onward)
        of_none = both.withColumn("next_left", next_left).where(
            F.col("is_event") & (F.col("next_left").isNull() | (F.col("next_left") > F.col("last_offset")))
        )
        spans = F.broadcast(self._spans())
        is_within = (
            (F.col("topic_id") == spans["of_id"]) & (F.col("partition") == spans["part"])
            & (F.col("offset") >= spans["begin"]) & (F.col("last_offset") < spans["end"])
        )  # fmt: skip
        known = of_none.join(spans, is_within, "left")
        is_meant = F.col("is_ours") & (F.col("begin").isNotNull() | F.coalesce("is_asked", F.lit(False)))
        return known.where(is_meant).select(*EVENT_KEY, _FILE)

    def _of_all(self, rows: DataFrame) -> list[Column]:
        """What is to be so of a message or event of whatever kind."""
        before_ms = self.choice.before_ms
        return [self._of_queue(rows)] + ([] if before_ms is None else [F.unix_millis("timestamp") < before_ms])

    def _of_queue(self, rows: DataFrame) -> Column:
        if self.choice.queue is None or DESTINATION not in rows.columns:
            return F.lit(True)
        return F.col(DESTINATION) == str(Queue(self.choice.queue))

    def _rows(self, name: str, schema: str) -> DataFrame:
        """All that the table has, with the file of each row."""
        folder = self.table(name)
        files = folder.files()
        rows = read_rows(self.spark, files, schema, base=folder.path)
        return rows.select("*", (F.col("_metadata.file_path") if files else F.lit("")).alias(_FILE))

    def _spans(self) -> DataFrame:
        """The offsets that were archived."""
        manifests = self.table(MESSAGES).manifests()
        spans = compacted(manifests, data_bytes=0).spans if manifests else []
        rows = [(each.topic_id, part, each.begin.get(part, 0), end) for each in spans for part, end in each.end.items()]
        return known_rows(self.spark, rows, "of_id string, part int, begin bigint, end bigint")

    def _file(self, uri: str) -> ArchivePath:
        """The file that Spark names."""
        return Path(unquote(urlsplit(uri).path)) if isinstance(self.path, Path) else archive_path(unquote(uri))

    def _replace(self, name: str, shape: RowShape, meant: DataFrame) -> int:
        """Take these out of the table; how many they were."""
        folder = self.table(name)
        meant.persist()
        try:
            found = {self._file(row[_FILE]): row["count"] for row in meant.groupBy(_FILE).count().collect()}
            total = 0
            for fragments, rows in folder.holding(found):
                place = str(fragments.paths[0]).removeprefix(f"{folder.path}/")
                where = f"{name}, {place.partition('/')[0]}"
                erasure = Erasure(self.record.at_ms, self.record.by, self.record.what, rows)
                rewrite(self.spark, folder, fragments, shape, without=meant, erasure=erasure,
                        staged=lambda where=where, rows=rows: self.tell(f"{where}: {rows} rows are left out"))  # type: ignore[misc]  # fmt: skip
                total += rows
                self.tell(f"{where}: {rows} rows erased")
            return total
        finally:
            meant.unpersist()


def _without(rows: DataFrame, others: DataFrame, key: Sequence[str]) -> DataFrame:
    return rows.join(others, [rows[name].eqNullSafe(others[name]) for name in key], "left_anti")


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
