"""One measured client in a fresh process: `python -m jbm_kafka.bench.measured_client PLACE NAME OPTIONS-AS-JSON`.

Its environment names the Kafka cluster. Its last line of output is its result as JSON. Others before it say that it is
ready; it goes on when a line comes on its input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from jbm_kafka.bench.bridge_client import bridge_within, send_into_store
from jbm_kafka.bench.dramatiq_client import handle_in_dramatiq
from jbm_kafka.bench.forward import forward_jbm, forward_raw
from jbm_kafka.bench.handlers_client import burn_in_worker, handle_in_pool, handle_in_worker
from jbm_kafka.bench.held_unit import receive_others
from jbm_kafka.bench.latency import receive_latencies, receive_latencies_raw, send_paced, send_paced_raw
from jbm_kafka.bench.measured_receivers import receive_in_mode, receive_jbm, receive_raw, receive_share
from jbm_kafka.bench.processor import bind_to_one_processor
from jbm_kafka.bench.sends import (
    send_in_groups,
    send_one_by_one,
    send_one_by_one_raw,
    send_with_callback,
    send_with_callback_raw,
)
from jbm_kafka.bench.subscribed import receive_subscribed
from jbm_kafka.bench.waiting_client import receive_beside
from jbm_kafka.cli.cluster_settings import Cluster, cluster_of_environment, environment_of

CLIENTS: Mapping[str, Callable[..., Mapping[str, Any]]] = {
    "raw": receive_raw,
    "share": receive_share,
    "jbm": receive_jbm,
    "client": partial(receive_in_mode, mode="CLIENT", acknowledges_each=100),
    "dups-ok": partial(receive_in_mode, mode="DUPS_OK"),
    "pre": partial(receive_in_mode, mode="PRE"),
    "selector": partial(receive_in_mode, selector="region = 'EU' AND quantity BETWEEN 5 AND 9"),
    "send": send_paced,
    "send-raw": send_paced_raw,
    "flush-raw": send_one_by_one_raw,
    "one-by-one": send_one_by_one,
    "beside-flood": partial(send_one_by_one, is_beside_flood=True),
    "callback-raw": send_with_callback_raw,
    "callback": send_with_callback,
    "groups": send_in_groups,
    "latency": receive_latencies,
    "latency-raw": receive_latencies_raw,
    "held": receive_others,
    "subscribed": receive_subscribed,
    "waiting": receive_beside,
    "forward": forward_jbm,
    "forward-raw": forward_raw,
    "bridge": bridge_within,
    "store": send_into_store,
    "worker": handle_in_worker,
    "pool": handle_in_pool,
    "burn": burn_in_worker,
    "dramatiq": handle_in_dramatiq,
}


class MeasuredClient:
    """A measured client's process, as its starter sees it. Leaving the block ends it, whatever it does."""

    def __init__(
        self, name: str, *, cluster: Cluster, is_bound: bool = False, under: Sequence[str] = (), **options: Any
    ) -> None:
        """`under`: the command that runs the process, for one that counts what it does."""
        self._name = name
        place = "bound" if is_bound else "free"
        self._process = subprocess.Popen(
            [*under, sys.executable, "-m", "jbm_kafka.bench.measured_client", place, name, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # The order of sets and what it costs to find something in them are then the same in every run.
            env={**environment_of(cluster, os.environ), "PYTHONHASHSEED": "0"},
        )

    def wait_ready(self) -> None:
        """Return when it has joined and waits."""
        self._line()

    def go_on(self) -> None:
        """Tell it that what it waits for is there."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def result(self) -> Mapping[str, Any]:
        """Return what it measured; waits for its end.

        Raises:
            OSError: it failed; it has said why on standard error.
        """
        values = self._line()
        self._process.wait()
        return values

    def _line(self) -> Mapping[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise OSError(f"the benchmark's client {self._name!r} ended with code {self._process.wait()}")
        values: Mapping[str, Any] = json.loads(line)
        return values

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def measure(name: str, *, cluster: Cluster, is_bound: bool = False, **options: Any) -> Mapping[str, Any]:
    """Run one client from beginning to end, on one processor when it is bound."""
    with MeasuredClient(name, cluster=cluster, is_bound=is_bound, **options) as worker:
        return worker.result()


def main(arguments: list[str]) -> None:
    """The process itself."""
    place, name, options = arguments
    if place == "bound":
        bind_to_one_processor()
    print(json.dumps(CLIENTS[name](cluster_of_environment(os.environ), **json.loads(options))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
