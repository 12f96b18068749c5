"""How soon threads get the interpreter from one that works for long."""

from __future__ import annotations

import sys
import threading

from jbm_kafka.client.quick_switches import QUICK_SWITCHES, SWITCH_S


def test_threads_change_sooner_as_long_as_any_of_them_works_for_long() -> None:
    """Two parts of a process, as an AMQP server and a console: the first that ends changes nothing for the other."""
    usual_s, go_on = sys.getswitchinterval(), threading.Event()
    assert usual_s > SWITCH_S
    begun = threading.Event()

    def other() -> bool:
        begun.set()
        return go_on.wait(30)

    thread = threading.Thread(target=QUICK_SWITCHES.during, args=(other,))

    def first() -> float:
        thread.start()
        assert begun.wait(30)
        return sys.getswitchinterval()

    assert round(QUICK_SWITCHES.during(first), 6) == SWITCH_S
    assert round(sys.getswitchinterval(), 6) == SWITCH_S
    go_on.set()
    thread.join()
    assert sys.getswitchinterval() == usual_s
