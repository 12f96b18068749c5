"""How fast Qpid JMS sends and receives through a sidecar on a local broker: `python -m tests.amqp.speed --help`."""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.devbroker.ports import free_port
from tests.amqp.java_clients import JavaClients
from tests.amqp.server_process import ServerTask, running


def rates(clients: JavaClients, url: str, *, queue: str, count: int, warm: int) -> dict[str, float]:
    """Messages a second, by what was measured."""
    code, output = clients.run(
        "SpeedClient", [], {"url": url, "queue": queue, "count": str(count), "warm": str(warm)}, timeout_s=600
    )
    assert code == 0, output
    rows = [line.split() for line in output.splitlines() if len(line.split()) == 2]
    return {row[0]: float(row[1]) for row in rows if row[0] in {"asynchronous", "consumed", "synchronous"}}


def main() -> None:
    """Print medians; beside another server, in turns, also the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40_000, help="messages of a run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--beside", metavar="URL", help="another AMQP server")
    options = parser.parse_args()
    found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as folder, LocalBroker() as broker:
        task = ServerTask(bootstrap=broker.bootstrap, port=free_port(), state_dir=f"{folder}/state", namespace="")
        classes = Path(folder) / "classes"
        classes.mkdir()
        clients = JavaClients(classes)
        with running(task) as [server]:
            urls = {"sidecar": server.url} | ({"beside": options.beside} if options.beside else {})
            for repeat in range(options.repeats):
                for name, url in urls.items():
                    measured = rates(clients, url, queue=f"q{repeat}", count=options.count, warm=options.count // 4)
                    for what, rate in measured.items():
                        found[what][name].append(rate)
    for what, by_name in found.items():
        medians = {name: statistics.median(values) for name, values in by_name.items()}
        ratio = f"  {medians['sidecar'] / medians['beside']:.2f} of the other" if "beside" in medians else ""
        print(what, {name: round(value) for name, value in medians.items()}, ratio)


if __name__ == "__main__":
    main()
