"""Processes killed in the middle of a checkpoint, and checkpoints that cannot take everything."""

import random
import threading
import time
from collections.abc import Callable

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.errors import TransactionRolledBackError
from jbm_kafka.kafka import ConfluentKafka
from tests.chaos.conftest import MakePuppet
from tests.support.chaos_topics import OpenTransactions, channel_events, read_committed, send_texts
from tests.support.topics import delete_topics
from tests.support.waiting import wait_until

TRANSACTION_TIMEOUT_S = 10.0
SCAN_INTERVAL_S = 1.0
"""How often the brokers of the tests look for transactions past their timeout."""
SLACK_S = 20.0
"""What a busy machine takes to start a process and to let it join."""
PATIENCE_S = 60.0
SENDS, SEND_BYTES = 12_000, 4_000
"""Enough to keep a transaction open for longer than it takes to see that it has begun; if not, twice as many."""
TRIES = 3


def is_undecided(bootstrap: str, topic: str) -> bool:
    """A transaction on the topic's first partition is neither committed nor aborted; one that is only not marked yet
    is."""
    log = ConfluentKafka(bootstrap).transaction_log()
    try:
        return any(each.state == "Ongoing" for each in log.open_on(topic, 0).transactions)
    finally:
        log.close()


def test_a_kill_in_a_checkpoint_loses_nothing_of_earlier_ones(
    bootstrap: str, make_queue: Callable[..., str], puppet: MakePuppet
) -> None:
    """LOG-5, ACK-7, of ACK-9: its heir knows what was recorded before, and readers wait for the timeout, not longer.

    It stands still while the test looks whether its checkpoint is still on its way; one that was over by then counts as
    recorded, and a larger one follows.
    """
    queue, out = make_queue("in"), make_queue("out")
    texts = [str(number) for number in range(4 + TRIES)]
    send_texts(bootstrap, queue, texts)
    victim = puppet("victim")
    victim.ask("open", "early", "INDIVIDUAL", queue)
    for number in range(2):
        assert victim.ask("receive", "early", PATIENCE_S)[0] == str(number)
        victim.ask("acknowledge", "early", number)
    wait_until(lambda: channel_events(bootstrap, queue), about="the acknowledgements recorded", timeout_s=PATIENCE_S)
    victim.ask("open", "s", "TRANSACTED", queue)
    changelog = OpenTransactions(bootstrap, f"{queue}.jbm-changelog")
    recorded = 0
    left = texts[2:]
    for sends in (SENDS * 2**number for number in range(TRIES)):
        taken = victim.ask("receive", "s", PATIENCE_S)[0]
        assert taken in left  # the first of them may be in the other session's buffer
        assert victim.ask("send_noise", "s", out, sends, SEND_BYTES) is None
        assert not changelog.is_there_one()
        victim.tell("commit", "s")
        wait_until(
            lambda: changelog.is_there_one() or victim.has_answered(),
            about="a checkpoint on its way",
            timeout_s=PATIENCE_S,
        )
        victim.freeze()
        if is_undecided(bootstrap, f"{queue}.jbm-changelog"):
            break
        victim.thaw()
        assert victim.answer() is None
        recorded += sends
        left.remove(taken)
    else:
        raise AssertionError(f"each of {TRIES} commits was faster than the kill")
    victim.kill()
    killed_at = time.monotonic()

    heir = puppet("heir")
    heir.ask("open", "s", "INDIVIDUAL", queue)
    bodies = [heir.ask("receive", "s", PATIENCE_S)[0] for _ in left]
    stalled_s = time.monotonic() - killed_at
    assert sorted(bodies) == left
    target = OpenTransactions(bootstrap, out)
    wait_until(lambda: not target.is_there_one(), about="readers of the target go on", timeout_s=SLACK_S)
    assert stalled_s < TRANSACTION_TIMEOUT_S + SCAN_INTERVAL_S + SLACK_S
    assert len(read_committed(bootstrap, out)) == recorded


def test_a_letter_too_large_goes_without_its_body_and_its_unit_goes_on(
    bootstrap: str, make_queue: Callable[..., str]
) -> None:
    """Of REDELIVER-4: the copy keeps key and coordinates; the next of the unit is delivered."""
    # An operator's topic, as its retention tells: ours would be made large enough.
    operators = {"max.message.bytes": "3000", "retention.ms": "604800000"}
    queue, dead_letters = make_queue("orders"), make_queue("dlq", operators)
    body = random.Random(1).randbytes(2_500).hex()  # what could be compressed to fit is sent whole
    send_texts(bootstrap, queue, [body, "next"], unit="u")
    settings = AddressSettings(max_delivery_attempts=1, dead_letter_address=dead_letters)
    factory = ConnectionFactory(bootstrap, address_settings={queue: settings}, session_timeout_ms=3_000)
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        consumer = session.create_consumer(Queue(queue))
        large = consumer.receive(PATIENCE_S)
        assert large is not None
        large.nack()
        following = consumer.receive(PATIENCE_S)
        assert following is not None
        assert following.body == "next"
        following.acknowledge()
    [letter] = read_committed(bootstrap, dead_letters)
    assert (letter.key(), letter.value()) == (b"u", None)
    headers = dict(letter.headers() or [])
    assert headers["jms.long._JBM_ORIG_OFFSET"] == b"0"
    assert headers["jms.string._JBM_ORIG_DESTINATION"] == f"queue:{queue}".encode()
    assert read_committed(bootstrap, queue)[0].value() == body.encode()


def test_a_destination_deleted_under_one_commit_harms_no_other_session(
    bootstrap: str, make_queue: Callable[..., str]
) -> None:
    """ACK-7, LOG-5: that session is rolled back, by name; a commit beside it and plain acknowledgements go on."""
    queue, gone, out = make_queue("in"), make_queue("gone"), make_queue("out")
    send_texts(bootstrap, queue, ["0", "1", "2"])
    factory = ConnectionFactory(bootstrap, session_timeout_ms=3_000)
    with factory.create_connection() as connection:
        victim, other = (connection.create_session(AcknowledgeMode.TRANSACTED) for _ in range(2))
        for session, target in ((victim, gone), (other, out)):
            session.create_producer(Queue(target)).send(f"to {target}")
        received = victim.create_consumer(Queue(queue), prefetch=1).receive(PATIENCE_S)
        assert received is not None
        delete_topics(bootstrap, [gone])
        errors: list[BaseException] = []

        def commit_victim() -> None:
            try:
                victim.commit()
            except TransactionRolledBackError as error:
                errors.append(error)

        beside = threading.Thread(target=commit_victim)
        beside.start()
        began = time.monotonic()
        other.commit()
        took_s = time.monotonic() - began
        beside.join(60)
        assert len(errors) == 1, "the commit to a deleted destination was not rolled back"
        assert took_s < 30
        [letter] = read_committed(bootstrap, out)
        assert letter.value() == f"to {out}".encode()
        # What the victim had received came back to it, or to anybody.
        again = connection.create_session().create_consumer(Queue(queue), prefetch=1)
        bodies = {message.body for message in (again.receive(PATIENCE_S) for _ in range(2)) if message is not None}
        assert len(bodies) == 2
