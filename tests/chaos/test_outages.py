"""The broker stands still, or is stopped and started again, under every call of the API at once.

Each call is made when Kafka has just ceased to answer. It returns or raises a JMSError; what it promises by that is
judged when Kafka answers again, without the application's help but that of calling once more what asks or makes
something.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import pytest

from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.errors import JMSError
from tests.support.outage_calls import CALLS, Bench, Call
from tests.support.outage_operators import OPERATOR_CALLS
from tests.support.outage_sessions import SESSION_CALLS
from tests.support.outage_work import WORK_CALLS
from tests.support.waiting import wait_until

Prepared = Callable[[Bench], Call]
AT_ONCE: dict[str, tuple[Prepared, ...]] = {
    "basic": (*CALLS, *WORK_CALLS),
    "sessions": SESSION_CALLS,
    "operators": OPERATOR_CALLS,
}
"""Which calls one broker answers together: more of them keep two processors busy for longer than their time-outs."""

AFTER_S = 90.0
"""A call ends within that time after the outage, on a busy machine too."""
PREPARED_AT_ONCE = 6
"""Each waits for its group and its topics; more at once keep a broker on two processors from its own work."""


def made(call: Call) -> object:
    """What it returns; the error if it raises one."""
    try:
        return call.make()
    except JMSError as error:
        return error


def outage(broker: LocalBroker, kind: str, seconds: float) -> None:
    """Until it is over."""
    never = threading.Event()
    if kind == "paused":
        never.wait(seconds)  # the length of the outage itself: nothing is waited for
        broker.resume()
    else:
        never.wait(seconds)
        broker.start()


def judged(
    bench: Bench, broker: LocalBroker, made_of: Sequence[Prepared], kind: str, seconds: float, *, is_midway: bool
) -> list[str]:
    """What was wrong, by the call's name. `is_midway`: the outage begins when the first of the calls has returned."""
    with ThreadPoolExecutor(PREPARED_AT_ONCE) as side_by_side:
        prepared = list(side_by_side.map(lambda each: each(bench), made_of))
    with ThreadPoolExecutor(len(made_of)) as side_by_side:  # all of them are under way at once
        calls = {each.__name__: call for each, call in zip(made_of, prepared, strict=True)}
        strike = broker.pause if kind == "paused" else broker.stop
        if not is_midway:
            strike()
        begun_s = time.monotonic()
        running = {name: side_by_side.submit(made, call) for name, call in calls.items()}
        if is_midway:
            wait(running.values(), return_when=FIRST_COMPLETED)
            strike()
        outage(broker, kind, seconds)
        returned = {name: future.result(AFTER_S) for name, future in running.items()}
        wait_until(lambda: answers(bench), about="an answer of the broker", timeout_s=AFTER_S)
        judging = {name: side_by_side.submit(fault, call, returned[name]) for name, call in calls.items()}
        found = {name: future.result() for name, future in judging.items()}
    print(f"{time.monotonic() - begun_s:.0f} s", {name: str(each)[:150] for name, each in returned.items()})
    about = f"after an outage of {seconds:g} s"
    return [f"{name} gave {returned[name]!r} {about}: {error}" for name, error in found.items() if error]


def answers(bench: Bench) -> bool:
    """Who asks gets an answer again: a broker that stood still is shut out for a while by its own controller."""
    try:
        return bench.admin.destinations() is not None
    except JMSError:
        return False


def fault(call: Call, answer: object) -> str:
    """What is wrong with an answer, and with what the topics say now."""
    if isinstance(answer, JMSError) and call.is_repeatable:
        answer = made(call)
    try:
        call.judge(answer)
    except (AssertionError, JMSError) as error:
        return str(error) or repr(error)
    return ""


def play(broker: LocalBroker, folder: Path, calls: str, kind: str, seconds: float, *, is_midway: bool = False) -> None:
    """All of it."""
    with ExitStack() as gone:
        bench = Bench(broker.bootstrap, folder, gone)
        wrong = judged(bench, broker, AT_ONCE[calls], kind, seconds, is_midway=is_midway)
        assert not wrong, "\n".join([*wrong, "troubles: ", *bench.troubles])


@pytest.mark.timeout(300)
# A broker that has just come up under thirty calls answers late where two processors do everything else too, and a
# call's second try may then fail as its first.
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("calls", "kind"),
    [
        ("basic", "paused"),
        *(
            pytest.param(calls, kind, marks=pytest.mark.slow)
            for calls in AT_ONCE
            for kind in ("paused", "stopped")
            if (calls, kind) != ("basic", "paused")
        ),
    ],
)
def test_an_outage_of_some_seconds_under_every_call(
    dedicated_broker: Callable[[], LocalBroker], tmp_path: Path, calls: str, kind: str
) -> None:
    """Of CONN-3: nothing lost, nothing twice that was said to be done."""
    play(dedicated_broker(), tmp_path / "state", calls, kind, 4.0)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["paused", "stopped"])
@pytest.mark.parametrize("calls", AT_ONCE)
def test_an_outage_that_begins_while_every_call_is_under_way(
    dedicated_broker: Callable[[], LocalBroker], tmp_path: Path, calls: str, kind: str
) -> None:
    """Of CONN-3: as above; the first of them has returned, the others are wherever they are."""
    play(dedicated_broker(), tmp_path / "state", calls, kind, 4.0, is_midway=True)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["paused", "stopped"])
@pytest.mark.parametrize("calls", AT_ONCE)
def test_an_outage_of_thirty_seconds_under_every_call(
    dedicated_broker: Callable[[], LocalBroker], tmp_path: Path, calls: str, kind: str
) -> None:
    """Of CONN-3: beyond the session timeout, so that the process must join its groups again."""
    play(dedicated_broker(), tmp_path / "state", calls, kind, 30.0)
