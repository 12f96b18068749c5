"""The audit judges a plain story, given once and acknowledged once, by a short way, as it would by the long one."""

import random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_spark.jobs.audit.audit_checks import FATE, LETTER, STEPS
from jbm_spark.jobs.audit.audit_inputs import SINCE_EVER, AuditInputs
from jbm_spark.jobs.audit.audit_result import FAULTS
from jbm_spark.jobs.audit.run_audit import judged

pytestmark = pytest.mark.thorough

STORIES, SENT_MS, SKEW_MS = 6_000, 1_700_000_000_000, 1_000
[PLAIN] = [step for step in STEPS if "is_plain" in step]
STORY = (
    "queue string, topic_id string, partition int, offset bigint, message_id string, key binary, "
    f"sent_at_ms bigint, expiration_ms bigint, delivery_ms bigint, is_settled boolean, fates array<{FATE}>, "
    f"letters array<{LETTER}>"
)


def fate(chance: random.Random, seq: int) -> tuple[object, ...]:
    kind = chance.choice(["delivered"] * 4 + ["acknowledged"] * 4 + ["returned", "dead-lettered", "expired", "moved"])
    at_ms = chance.choice([SENT_MS - 5_000, SENT_MS + 10 * seq, SENT_MS + 90_000])
    is_back = kind == "returned"
    return (
        seq, kind, at_ms, chance.choice([1, 2, 5]), "queue:DLQ" if kind in ("dead-lettered", "expired") else None,
        chance.choice(["max", "operator"]), at_ms + chance.choice([0, 50_000]) if is_back else None,
        chance.choice([None, 1, 3]) if is_back else None, chance.choice([1, 2, 6]) if kind == "delivered" else None,
        chance.choice([None, "CLIENT", "PRE", "NO"]) if chance.random() < 0.3 else "CLIENT", chance.random() < 0.95,
    )  # fmt: skip


def story(chance: random.Random, offset: int) -> tuple[object, ...]:
    seqs = sorted(chance.choice([offset, offset + 1, offset + 50]) for _ in range(chance.choice([0, 1, 2, 2, 2, 2, 3])))
    letters = [
        ("queue:DLQ", chance.choice([None, "t"]), f"0:{each}", SENT_MS, chance.random() < 0.2)
        for each in range(chance.choice([0] * 9 + [1, 2]))
    ]
    unit = chance.choice([None, "a", "b", "c", "d"])
    return (
        "g", "t", offset % 3, offset, f"ID:{offset}", None if unit is None else unit.encode(), SENT_MS,
        chance.choice([0] * 9 + [SENT_MS + 1]), chance.choice([0] * 9 + [SENT_MS + 20_000]), chance.random() < 0.8,
        sorted([fate(chance, seq) for seq in seqs], key=lambda each: (each[0], each[1])), letters,
    )  # fmt: skip


def verdicts(spark: SparkSession, inputs: AuditInputs) -> DataFrame:
    return judged(inputs, SKEW_MS).localCheckpoint()


def test_a_plain_story_is_judged_as_any_other(spark: SparkSession) -> None:
    chance = random.Random(20)
    stories = spark.createDataFrame([story(chance, offset) for offset in range(STORIES)], STORY)
    inputs = AuditInputs(
        groups={}, topic_ids={"g": "t"}, story=stories, known_from_ms={"g": SENT_MS - 1}, unreadable={},
        kept_from_ms={"queue:DLQ": SINCE_EVER}, moves_known_from_ms=SINCE_EVER, gone=stories,
    )  # fmt: skip
    short = verdicts(spark, inputs)
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(PLAIN, "is_plain", "false")
        long = verdicts(spark, inputs)
    assert short.exceptAll(long).collect() == long.exceptAll(short).collect() == []
    [seen] = short.agg(
        *(F.count_if(F.col(f"fault_{at}").isNotNull()).alias(name) for at, name in enumerate(FAULTS))
    ).collect()
    assert [name for name, count in seen.asDict().items() if not count] == []
    step = stories.withColumns({name: F.expr(sql) for name, sql in STEPS[0].items()})
    assert step.where(PLAIN["is_plain"]).count() > STORIES / 40
