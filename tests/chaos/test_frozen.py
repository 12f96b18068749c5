"""A process stopped with SIGSTOP beyond its session timeout, and resumed when others have its messages."""

from collections.abc import Callable

from tests.chaos.conftest import MakePuppet
from tests.support.chaos_puppet import Puppet
from tests.support.chaos_topics import channel_events, checkpoint_writers, read_committed, send_texts
from tests.support.waiting import wait_until

TAKEOVER_S = 60.0
MODES = ("TRANSACTED", "CLIENT", "INDIVIDUAL")


def test_a_frozen_process_writes_nothing_when_it_goes_on(
    bootstrap: str, make_queue: Callable[..., str], puppet: MakePuppet
) -> None:
    """LOG-6: its commit is rolled back, its acknowledgements are refused, and the topics hold nothing of it."""
    queues = {mode: make_queue(mode.lower()) for mode in MODES}
    out = make_queue("out")
    for queue in queues.values():
        send_texts(bootstrap, queue, ["first", "second"], unit="u")
    frozen = puppet("frozen")
    for mode, queue in queues.items():
        frozen.ask("open", mode, mode, queue)
        assert frozen.ask("receive", mode, TAKEOVER_S) == ["first", 1, False]
    frozen.ask("send", "TRANSACTED", out, "must not be seen")
    # Its own marks are durable now; from here on nothing may follow.
    for queue in queues.values():
        wait_until(
            lambda q=queue: checkpoint_writers(bootstrap, q),  # type: ignore[misc]
            about=f"a position of {queue}",
            timeout_s=TAKEOVER_S,
        )
    [writer] = set(checkpoint_writers(bootstrap, queues["CLIENT"]))

    frozen.freeze()
    successor = puppet("successor")
    for mode, queue in queues.items():
        successor.ask("open", mode, mode, queue)
        assert successor.ask("receive", mode, TAKEOVER_S) == ["first", 2, True]
    frozen.thaw()

    rolled_back = frozen.ask("commit", "TRANSACTED")
    assert rolled_back is not None
    assert rolled_back.startswith("TransactionRolledBackError: "), rolled_back
    for mode in ("CLIENT", "INDIVIDUAL"):
        _assert_refused(frozen, mode, queues[mode])
    for mode in MODES:
        call = ("commit", mode) if mode == "TRANSACTED" else ("acknowledge", mode, 0)
        assert successor.ask(*call) is None
        body, _, _ = successor.ask("receive", mode, TAKEOVER_S)
        assert body == "second"
    frozen.kill()
    successor.kill()
    assert read_committed(bootstrap, out) == []
    for queue in queues.values():
        writers = checkpoint_writers(bootstrap, queue)
        own = [number for number, name in enumerate(writers) if name == writer]
        others = [number for number, name in enumerate(writers) if name != writer]
        assert max(own) < min(others), f"{queue}: the frozen one wrote again"
        assert writer not in [event["checkpoint_id"].rpartition(":")[0] for event in channel_events(bootstrap, queue)]


def _assert_refused(frozen: Puppet, mode: str, queue: str) -> None:
    """By the call itself or, when the news was on its way, by the exception listener: as refused, or as taken."""
    raised = frozen.ask("acknowledge", mode, 0)
    if raised is None:
        wait_until(
            lambda: any(queue in text for text in frozen.ask("troubles")),
            about=f"{queue}: a refusal",
            timeout_s=TAKEOVER_S,
        )
        [raised] = [text for text in frozen.ask("troubles") if queue in text]
    assert raised.startswith("IllegalStateError: ") or "taken from this session before it settled them" in raised
    assert "refused" in raised, raised
