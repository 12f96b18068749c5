"""The eight faults as SQL. None of it is taken from `jbm_kafka.core`: a fault that both shared would hide itself.

All of them are expressions over one frame, the story of each message, so that Spark plans one query and not twenty:

    queue topic_id partition offset message_id key sent_at_ms expiration_ms delivery_ms
    is_settled   by the changelog
    fates        what became of it, in order: array of `FATE`. `seq` grows with the checkpoints of a partition. Those of
                 older versions, which do not tell the topic's id, are not `is_known`: they prove no fault, and no loss
    letters      what dead-letter and expiry addresses have of it: array of `LETTER`

Values that are known beside it stand in braces: `{known_from_ms}` and `{kept_from_ms}` are columns as SQL, for they are
others for each queue, and for each address.
"""

from collections.abc import Mapping, Sequence

FATE = (
    "struct<seq:bigint,fate:string,at_ms:bigint,attempts:int,target:string,reason:string,due_at_ms:bigint,"
    "attempts_max:int,attempt:int,mode:string,is_known:boolean>"
)
LETTER = "struct<target:string,topic_id:string,place:string,at_ms:bigint,has_left:boolean>"
_ENDS = "('acknowledged', 'dead-lettered', 'removed', 'expired', 'duplicate', 'moved')"
ENDS = f"({_ENDS[1:-1]}, 'skipped')"
"""The fates after which a message comes no more."""
_IS_END = f"f.is_known and f.fate in {_ENDS}"
_IS_SAME_OR_LATER = """
    l.seq >= r.seq and ((l.fate = 'delivered' and l.attempt > r.attempts)
                        or (l.fate = 'returned' and l.attempts > r.attempts) or l.fate = 'acknowledged')
"""
_COPIES = "filter(letters, l -> l.target = t and l.topic_id = topic_id and not l.has_left)"
_DOUBLED = f"""
    filter(transform(array_distinct(transform(letters, l -> l.target)), t -> struct(t as target, {_COPIES} as copies)),
           d -> size(d.copies) > 1)
"""

STEPS: Sequence[dict[str, str]] = (
    {"one": "get(fates, 0)", "other": "get(fates, 1)"},
    {
        # Given once and acknowledged once, or nothing at all yet: most are so, and Spark's functions over arrays are
        # slow.
        "is_plain": """
            size(fates) = 0 and size(letters) = 0 and not is_settled
            or size(fates) = 2 and size(letters) = 0 and delivery_ms = 0
            and one.is_known and other.is_known
            and coalesce(one.mode not in ('PRE', 'NO'), true)
            and coalesce(other.mode not in ('PRE', 'NO'), true)
            and (one.fate = 'delivered' and other.fate = 'acknowledged'
                 or one.fate = 'acknowledged' and other.fate = 'delivered' and one.seq = other.seq)
        """,
    },
    {
        "fates_count": "size(fates)",
        "plain_seq": "case when is_plain then if(one.fate = 'acknowledged', one.seq, other.seq) end",
        "plain_given_ms": "case when is_plain then if(one.fate = 'delivered', one.at_ms, other.at_ms) end",
        # From here on nothing looks at them, and no step copies them.
        "others": "case when not is_plain then fates end",
    },
    {
        "known": "filter(others, f -> f.is_known)",
        "ends": f"filter(others, f -> {_IS_END})",
        "first": f"get(filter(others, f -> {_IS_END}), 0)",
        "returns": "filter(others, f -> f.is_known and f.fate = 'returned')",
        "is_ended": f"plain_seq is not null or coalesce(exists(others, f -> f.fate in {ENDS}), false)",
        "is_unordered": "not is_plain and exists(others, f -> coalesce(f.mode in ('PRE', 'NO'), false))",
        "doubled": f"case when not is_plain then {_DOUBLED} end",
        "first_given_ms": """
            coalesce(plain_given_ms, array_min(transform(
                filter(others, f -> f.is_known and f.fate = 'delivered'), f -> f.at_ms)))
        """,
    },
    {
        "first_seq": "coalesce(plain_seq, first.seq)",
        "is_acknowledged": "plain_seq is not null or coalesce(first.fate = 'acknowledged', false)",
        # An earlier message of the unit holds the later ones until then. What expired, or an operator took, may be
        # passed.
        "held_until_seq": """
            case when plain_seq is not null then plain_seq
                 when first.fate = 'acknowledged' then first.seq
                 when first.fate = 'dead-lettered' and first.reason <> 'operator' then first.seq
                 when is_ended or is_settled then null
                 when expiration_ms between 1 and {now_ms} then null
                 else {never} end
        """,
    },
)
"""Columns that are added to the story, one step after the other: few, for a step with functions over arrays copies the
rows."""

IN_UNIT = {"held": "if(is_unordered, null, held_until_seq)", "given": "if(is_unordered, null, first_given_ms)"}
"""Values of a message for the later ones of its unit; null where they do not count."""
ORDER = {
    # Each message without a unit stands for itself: in one window they would be sorted together.
    f"before_{name}": f"""
        max(struct({name}, offset)) filter (where {name} is not null) over (
            partition by topic_id, partition, nullif(key, X''),
                         case when coalesce(length(key), 0) = 0 then offset end
            order by offset rows between unbounded preceding and 1 preceding)
    """
    for name in IN_UNIT
}
"""The greatest of them that came before, and its offset: `with_unit_order` (partition_walk.py) where the messages come
in the order of their logs. Only the fault `OF_ORDER` needs them, and all others are looked for before: the rows of a
unit are sorted for it, and are small then."""
OF_ORDER = "reordered"

CHECKS: Mapping[str, str] = {
    "lost": """
        case when is_settled and not is_ended and sent_at_ms >= {known_from_ms}
             then 'it is settled, and no event tells how' end
    """,
    "duplicated": """
        case when size(ends) > 1
             then concat('it ended ', size(ends), ' times: ', first.fate, ' at ', first.at_ms, ', last at ',
                         array_max(transform(ends, f -> f.at_ms))) end
    """,
    "reordered": """
        case when is_unordered then null
             when is_acknowledged and before_held.held > first_seq
             then concat('it was acknowledged while ', partition, ':', before_held.offset,
                         ' of its unit was not finished')
             when before_given.given > first_given_ms + {skew_ms} + 10
             then concat('it was given at ', first_given_ms, ', before ', partition, ':', before_given.offset,
                         ' of its unit, at ', before_given.given) end
    """,
    "early redelivery": f"""
        coalesce(
            array_min(flatten(transform(
                filter(returns, r -> r.due_at_ms > 0 and r.due_at_ms < {{forever_ms}}),
                r -> transform(filter(known, l -> l.at_ms < r.due_at_ms - {{skew_ms}} and {_IS_SAME_OR_LATER}),
                               l -> concat(l.fate, ' at ', l.at_ms, ', and it was to wait until ', r.due_at_ms))))),
            array_min(transform(
                filter(known, f -> f.fate in ('delivered', 'acknowledged') and f.at_ms < delivery_ms - {{skew_ms}}),
                f -> concat(f.fate, ' at ', f.at_ms, ', and its delivery time is ', delivery_ms))))
    """,
    "too many attempts": f"""
        array_min(flatten(transform(
            filter(returns, r -> r.attempts_max >= 0 and r.attempts >= r.attempts_max),
            r -> transform(filter(known, l -> {_IS_SAME_OR_LATER}),
                           l -> concat(l.fate, ' at ', l.at_ms, ', after ', r.attempts, ' attempts of ',
                                       r.attempts_max)))))
    """,
    "delivery after acknowledgement": """
        array_min(transform(
            filter(known, f -> f.seq > first.seq
                               and (f.fate = 'returned'
                                    or (f.fate = 'delivered' and f.at_ms > first.at_ms + {skew_ms}
                                        and not (f.mode <=> 'PRE')))),
            f -> concat(f.fate, ' at ', f.at_ms, ', and it was ', first.fate, ' at ', first.at_ms)))
    """,
    "dead letter twice": """
        array_min(transform(
            filter(doubled, d -> array_min(transform(d.copies, l -> l.at_ms)) >= {moves_known_from_ms}),
            d -> concat(size(d.copies), ' copies in ', d.target, ': ',
                        array_join(sort_array(transform(d.copies, l -> l.place)), ', '))))
    """,
    "dead letter missing": """
        array_min(transform(
            filter(known, f -> f.fate in ('dead-lettered', 'expired')
                               and {kept_from_ms} <= f.at_ms - {skew_ms}
                               and not exists(letters, l -> l.target = f.target
                                                            and coalesce(l.topic_id, topic_id) = topic_id)),
            f -> concat(f.fate, ' at ', f.at_ms, ', and ', f.target, ' has no copy')))
    """,
}  # fmt: skip
"""The evidence of each fault, or null. Of a plain message only that of `OF_ORDER` is asked: it has no other."""

UNPROVEN: Mapping[str, str] = {
    "settled before the oldest event that is kept": """
        is_settled and not is_ended and sent_at_ms < {known_from_ms}
    """,
    "of events of older versions, which do not tell the topic's id": """
        exists(others, f -> not f.is_known)
    """,
    "acknowledged, and not recorded when they were given to whom": """
        exists(others, f -> f.fate = 'acknowledged') and not exists(others, f -> f.fate = 'delivered')
    """,
    "returned, and not recorded until when they wait under which limits": """
        exists(others, f -> f.fate = 'returned' and (f.due_at_ms is null or f.attempts_max is null))
    """,
    "copied to an address whose topic is gone, or has lost what it had then": """
        exists(others, f -> f.fate in ('dead-lettered', 'expired') and f.target is not null
                           and coalesce({kept_from_ms} > f.at_ms - {skew_ms}, true))
    """,
    "dead letters with several copies, older than the events that tell of moves": """
        exists(doubled, d -> array_min(transform(d.copies, l -> l.at_ms)) < {moves_known_from_ms})
    """,
}
"""The messages of which something could not be told, by the thing; of a plain one all could."""
UNREADABLE_EVENTS = "events that cannot be read"
"""The word for unreadable events, whichever message they are about."""

NEVER = 2**63 - 1
"""The `seq` of an end that has not come."""
FOREVER_MS = 1 << 60
"""Until an operator lets it go, as topics.md says of `due_at_ms`."""
