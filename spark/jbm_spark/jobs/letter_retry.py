"""Dead letters sent again: SQL says which, and jbm-kafka's administration moves them, each exactly once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jbm_kafka.admin import Admin, DeadLetter
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.settings.addresses import destination_at
from jbm_spark.dead_letter_queue import dead_letter_queue
from jbm_spark.errors import SparkJobError
from jbm_spark.jobs.report import counted, printable, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE = "origin string, unit string, partition int, offset bigint"
UNITS_MAX = 1_000
"""Units that are told by name; the most overtaken first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OvertakenUnit:
    """A unit of which later messages stand in the log of the queue: they were, or will be, received before."""

    destination: str
    unit: str
    letters: int
    """The number of letters of it that go back."""
    overtaken_by: int
    """Messages behind the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriedLetters:
    """The outcome for the letters that were chosen."""

    dead_letters: str
    is_dry_run: bool
    sent: int
    """To where they came from; of a dry run, what would be."""
    kept: tuple[tuple[str, str], ...]
    """Message id, and why it stays where it is."""
    taken: int
    """Received by somebody else meanwhile."""
    overtaken: tuple[OvertakenUnit, ...]
    warnings: tuple[str, ...]

    @property
    def has_violations(self) -> bool:
        """Return True if letters that were meant could not be sent."""
        return bool(self.kept)

    def text(self) -> str:
        """Return what a person reads."""
        lines = [f"warning: {printable(warning)}" for warning in self.warnings]
        if self.overtaken:
            rows = [
                (printable(each.unit), each.destination, str(each.letters), str(each.overtaken_by))
                for each in self.overtaken
            ]
            lines += table(("unit", "queue", "letters", "overtaken by"), rows)
        lines += [f"kept: {printable(message_id)}: {printable(why)}" for message_id, why in self.kept]
        verb = "would be sent" if self.is_dry_run else "sent"
        taken = f", {self.taken} taken by others" if self.taken else ""
        return "\n".join([*lines, f"{counted(self.sent, 'dead letter')} {verb} from {self.dead_letters}{taken}"])


def run(
    spark: "SparkSession",
    dead_letters: str | None = None,
    *,
    bootstrap: str,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    queue: str | None = None,
    where: str | None = None,
    limit: int | None = None,
    rate: float | None = None,
    is_dry_run: bool = False,
) -> RetriedLetters:
    """Send letters back to where they came from, in the order in which they died.

    Args:
        queue: only what came from there: a queue, or "topic:NAME".
        where: a condition in SQL over the columns of `jbm_spark.letters.letters`.
        limit: only so many that died first.
        rate: so many a second at most.

    Raises:
        SparkJobError: `where` is no condition; the text names the columns.
        The rest as `messages`, and as `Admin.retry_dead_letters`.
    """
    from pyspark.sql import functions as F  # noqa: N812

    from jbm_spark.letters import letters

    dead_letters = dead_letters or dead_letter_queue(bootstrap, namespace, kafka)
    found = letters(spark, dead_letters, bootstrap=bootstrap, namespace=namespace, kafka=kafka)
    if queue is not None:
        found = found.where(F.col("origin_destination") == str(destination_at(queue)))
    chosen = _chosen(found, where)
    places = {(row["partition"], row["offset"]) for row in chosen.select("kafka.partition", "kafka.offset").collect()}
    with Admin(bootstrap, namespace=namespace, kafka=kafka) as admin:
        plan = admin.retry_dead_letters(dead_letters, places=places, count=limit, dry_run=True)
        overtaken = _overtaken(spark, plan.letters, bootstrap=bootstrap, namespace=namespace, kafka=kafka)
        done = plan
        if plan.letters and not is_dry_run:
            meant = {letter.place for letter in plan.letters}
            done = admin.retry_dead_letters(dead_letters, places=meant, rate=rate)
    kept = {row.letter.place: (row.letter.message_id, row.why) for row in (*plan.kept, *done.kept)}
    return RetriedLetters(
        dead_letters=dead_letters, is_dry_run=is_dry_run, sent=len(done.letters), kept=tuple(kept.values()),
        taken=len(done.taken), overtaken=overtaken, warnings=tuple(plan.warnings if places else ()),
    )  # fmt: skip


def _chosen(letters: "DataFrame", where: str | None) -> "DataFrame":
    if where is None:
        return letters
    from pyspark.errors import PySparkException

    from jbm_spark.causes import cause_line

    try:
        return letters.where(where)
    except PySparkException as error:
        raise SparkJobError(f"where={where!r}: {cause_line(error)}; columns are {', '.join(letters.columns)}") from None


def _overtaken(
    spark: "SparkSession",
    letters: Sequence[DeadLetter],
    *,
    bootstrap: str,
    namespace: str,
    kafka: Mapping[str, object] | None,
) -> tuple[OvertakenUnit, ...]:
    """The units that went on; the letters' own originals do not count."""
    from pyspark.sql import functions as F  # noqa: N812

    from jbm_spark.messages import messages

    originals: dict[str, list[tuple[str, str, int, int]]] = {}
    for letter in letters:
        if letter.unit is not None and letter.original_place is not None:
            origin, partition, offset = letter.original_place
            originals.setdefault(origin, []).append((origin, letter.unit, partition, offset))
    told: list[OvertakenUnit] = []
    for origin, places in originals.items():
        try:
            later = messages(spark, destination_at(origin), bootstrap=bootstrap, namespace=namespace, kafka=kafka)
        except JMSError:  # it is not there any more: its letters are kept, which says so
            continue
        own = spark.createDataFrame(places, _PLACE)
        first = own.groupBy("unit", "partition").agg(F.min("offset").alias("first"), F.count("*").alias("letters"))
        at = later.select(F.col("unit_of_order").alias("unit"), "kafka.partition", "kafka.offset")
        behind = at.join(F.broadcast(first), ["unit", "partition"]).where("offset > first")
        behind = behind.join(F.broadcast(own), ["unit", "partition", "offset"], "left_anti")
        rows = behind.groupBy("unit").agg(F.max("letters").alias("letters"), F.count("*").alias("n"))
        told += [
            OvertakenUnit(destination=origin, unit=row["unit"], letters=row["letters"], overtaken_by=row["n"])
            for row in rows.orderBy(F.desc("n"), "unit").limit(UNITS_MAX).collect()
        ]
    return tuple(told)
