"""The eight faults as SQL. None of it is taken from `jbm_kafka.core`: a fault that both shared would hide itself.

Each query gives `fault`, `topic_id`, `partition`, `offset` and `what` over these frames:

    messages   topic_id partition offset message_id unit key sent_at_ms expiration_ms delivery_ms
    fates      topic_id partition offset fate at_ms attempts target reason due_at_ms attempts_max attempt mode seq
               is_known: a row for each message of a range. `seq` grows with the checkpoints of a partition. Those of
               older versions, which do not tell the topic's id, are not `is_known`: they prove no fault, and no loss
    settled    topic_id partition offset: by the changelog
    letters    target topic_id partition offset place at_ms has_left: what dead-letter and expiry addresses have
    targets    target kept_from_ms: addresses whose topics are there; what was copied there since then is there still,
               whichever partition it went to
"""

from collections.abc import Mapping

_ENDS = "('acknowledged', 'dead-lettered', 'removed', 'expired', 'duplicate', 'moved')"
_FOREVER_MS = 1 << 60

ENDED = f"""
select topic_id, partition, offset,
       count_if(fate in {_ENDS} and is_known) as ends,
       min(seq) filter (where fate in {_ENDS} and is_known) as first_seq,
       max(seq) filter (where fate in {_ENDS} and is_known) as last_seq,
       min_by(fate, seq) filter (where fate in {_ENDS} and is_known) as first_fate,
       min_by(at_ms, seq) filter (where fate in {_ENDS} and is_known) as first_end_ms,
       max(at_ms) filter (where fate in {_ENDS} and is_known) as last_end_ms,
       min_by(reason, seq) filter (where fate in {_ENDS} and is_known) as first_reason,
       bool_or(fate in {_ENDS} or fate = 'skipped') as is_ended,
       bool_or(mode in ('PRE', 'NO')) as is_unordered,
       min(at_ms) filter (where fate = 'delivered' and is_known) as first_given_ms
from {{fates}} group by topic_id, partition, offset
"""
"""`ended`: of each message that anything became of, how it ended first and last."""

NOT_TOLD = """
select m.topic_id, m.partition, m.offset, m.sent_at_ms
from {messages} m join {settled} s using (topic_id, partition, offset)
left join {ended} e using (topic_id, partition, offset)
where not coalesce(e.is_ended, false)
"""
"""`not_told`: settled, and no event says how."""

CHECKS: Mapping[str, str] = {
    "lost": """
select topic_id, partition, offset, 'it is settled, and no event tells how' as what
from {not_told} where sent_at_ms >= {known_from_ms}
""",
    "duplicated": """
select topic_id, partition, offset,
       concat('it ended ', ends, ' times: ', first_fate, ' at ', first_end_ms, ', last at ', last_end_ms) as what
from {ended} where ends > 1
""",
    # An earlier message of the unit that ended later, or not at all. What expired, or an operator took, may be passed.
    "reordered": """
with placed as (
    select m.topic_id, m.partition, m.offset, m.key, e.first_given_ms, e.first_fate, e.first_seq,
           coalesce(e.is_unordered, false) as is_unordered,
           case when e.first_fate = 'acknowledged' then e.first_seq
                when e.first_fate = 'dead-lettered' and e.first_reason <> 'operator' then e.first_seq
                when coalesce(e.is_ended, false) or s.offset is not null then null
                when m.expiration_ms between 1 and {now_ms} then null
                else {never} end as held_until_seq
    from {messages} m
    left join {ended} e using (topic_id, partition, offset)
    left join {settled} s using (topic_id, partition, offset)
    where m.key is not null and length(m.key) > 0
), beside as (
    select *, max(struct(held_until_seq, offset)) filter (where held_until_seq is not null and not is_unordered)
                  over earlier as passed,
              max(struct(first_given_ms, offset)) filter (where first_given_ms is not null and not is_unordered)
                  over earlier as given
    from placed
    window earlier as (partition by topic_id, partition, key order by offset
                       rows between unbounded preceding and 1 preceding)
)
select topic_id, partition, offset,
       case when first_fate = 'acknowledged' and passed.held_until_seq > first_seq
            then concat('it was acknowledged while ', partition, ':', passed.offset, ' of its unit was not finished')
            else concat('it was given at ', first_given_ms, ', before ', partition, ':', given.offset,
                        ' of its unit, at ', given.first_given_ms) end as what
from beside
where not is_unordered
  and ((first_fate = 'acknowledged' and passed.held_until_seq > first_seq)
       or given.first_given_ms > first_given_ms + {skew_ms} + 10)
""",
    "early redelivery": """
select r.topic_id, r.partition, r.offset,
       min(concat(later.fate, ' at ', later.at_ms, ', and it was to wait until ', r.due_at_ms)) as what
from {fates} r join {fates} later using (topic_id, partition, offset)
where r.fate = 'returned' and r.is_known and later.is_known and later.seq >= r.seq
  and r.due_at_ms > 0 and r.due_at_ms < {forever_ms} and later.at_ms < r.due_at_ms - {skew_ms}
  and ((later.fate = 'delivered' and later.attempt > r.attempts)
       or (later.fate = 'returned' and later.attempts > r.attempts)
       or later.fate = 'acknowledged')
group by r.topic_id, r.partition, r.offset
union all
select f.topic_id, f.partition, f.offset,
       min(concat(f.fate, ' at ', f.at_ms, ', and its delivery time is ', m.delivery_ms)) as what
from {fates} f join {messages} m using (topic_id, partition, offset)
where f.fate in ('delivered', 'acknowledged') and f.is_known and f.at_ms < m.delivery_ms - {skew_ms}
group by f.topic_id, f.partition, f.offset
""",
    "too many attempts": """
select r.topic_id, r.partition, r.offset,
       min(concat(later.fate, ' at ', later.at_ms, ', after ', r.attempts, ' attempts of ', r.attempts_max)) as what
from {fates} r join {fates} later using (topic_id, partition, offset)
where r.fate = 'returned' and r.is_known and later.is_known and later.seq >= r.seq
  and r.attempts_max >= 0 and r.attempts >= r.attempts_max
  and ((later.fate = 'delivered' and later.attempt > r.attempts)
       or (later.fate = 'returned' and later.attempts > r.attempts)
       or later.fate = 'acknowledged')
group by r.topic_id, r.partition, r.offset
""",
    "delivery after acknowledgement": """
select f.topic_id, f.partition, f.offset,
       min(concat(f.fate, ' at ', f.at_ms, ', and it was ', e.first_fate, ' at ', e.first_end_ms)) as what
from {fates} f join {ended} e using (topic_id, partition, offset)
where f.is_known and f.seq > e.first_seq
  and (f.fate = 'returned'
       or (f.fate = 'delivered' and f.at_ms > e.first_end_ms + {skew_ms} and not f.mode <=> 'PRE'))
group by f.topic_id, f.partition, f.offset
""",
    "dead letter twice": """
select topic_id, partition, offset,
       concat(count(*), ' copies in ', target, ': ', array_join(sort_array(collect_list(place)), ', ')) as what
from {letters} where topic_id is not null and not has_left group by target, topic_id, partition, offset
having count(*) > 1 and min(at_ms) >= {moves_known_from_ms}
""",
    "dead letter missing": """
select f.topic_id, f.partition, f.offset,
       concat(f.fate, ' at ', f.at_ms, ', and ', f.target, ' has no copy') as what
from {fates} f join {targets} t on t.target = f.target
left anti join {letters} l on l.target = f.target and l.partition = f.partition and l.offset = f.offset
                          and coalesce(l.topic_id, f.topic_id) = f.topic_id
where f.fate in ('dead-lettered', 'expired') and f.is_known and t.kept_from_ms <= f.at_ms - {skew_ms}
""",
}
"""By fault."""

UNPROVEN: Mapping[str, str] = {
    "settled before the oldest event that is kept": """
select count(*) from {not_told} where sent_at_ms < {known_from_ms}
""",
    "of events of older versions, which do not tell the topic's id": """
select count(distinct topic_id, partition, offset) from {fates} where not is_known
""",
    "acknowledged, and not recorded when they were given to whom": """
select count(distinct f.topic_id, f.partition, f.offset) from {fates} f
left anti join (select * from {fates} where fate = 'delivered') d using (topic_id, partition, offset)
where f.fate = 'acknowledged'
""",
    "returned, and not recorded until when they wait under which limits": """
select count(distinct topic_id, partition, offset) from {fates}
where fate = 'returned' and (due_at_ms is null or attempts_max is null)
""",
    "copied to an address whose topic is gone, or has lost what it had then": """
select count(distinct f.topic_id, f.partition, f.offset) from {fates} f left join {targets} t on t.target = f.target
where f.fate in ('dead-lettered', 'expired') and f.target is not null
  and (t.target is null or t.kept_from_ms > f.at_ms - {skew_ms})
""",
    "dead letters with several copies, older than the events that tell of moves": """
select count(*) from (
    select 1 from {letters} where topic_id is not null and not has_left group by target, topic_id, partition, offset
    having count(*) > 1 and min(at_ms) < {moves_known_from_ms})
""",
    "events that cannot be read": "select {unreadable}",
}
"""By what could not be told."""

NEVER = 2**63 - 1
"""The `seq` of an end that has not come."""
FOREVER_MS = _FOREVER_MS
"""Until an operator lets it go, as topics.md says of `due_at_ms`."""
