"""A seeded simulation of AMQP servers, clients and forwarding, over wires that split, delay and break.

python -m tests.wires --seed 7 --steps 400
"""

from __future__ import annotations

import sys
import time

import click

from tests.wires.wire_history import BrokenWireError, WireHistory


@click.command()
@click.option("--seed", type=int, default=1, show_default=True, help="The first seed.")
@click.option("--seeds", type=int, default=1, show_default=True, help="How many, one after the other.")
@click.option("--steps", type=int, default=400, show_default=True, help="Acts of each before the calm end.")
@click.option("--history", is_flag=True, help="Print the history of a seed that holds, too.")
def main(seed: int, seeds: int, steps: int, history: bool) -> None:
    """Play them; exit 1 when a promise was broken."""
    broken = 0
    for number in range(seed, seed + seeds):
        played, begun = WireHistory(number, steps), time.process_time()
        try:
            played.run()
        except BrokenWireError as error:
            broken += 1
            click.echo(f"seed {number}: {error}\n")
        else:
            if history:
                click.echo("\n".join(played.lines))
            click.echo(f"{played.summary()}, {time.process_time() - begun:.1f} s")
    sys.exit(1 if broken else 0)


main()
