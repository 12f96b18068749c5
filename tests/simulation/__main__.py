"""A seeded simulation of whole sidecars over the in-memory Kafka, in one thread and without real time.

python -m tests.simulation --seed 7 --steps 1500

Every seed draws its own weather (`profile`), plays act after act (`acts`), and after each act checks what must hold
(`invariants`, `at_hand_over`) against what a recorder wrote down of it (`paper`, `views`). This plays one seed or
several, and prints what broke.
"""

from __future__ import annotations

import sys

import click

from tests.simulation.profile import Plan
from tests.simulation.run import BrokenPromiseError, Simulation


@click.command()
@click.option("--seed", type=int, default=1, show_default=True, help="The first seed.")
@click.option("--seeds", type=int, default=1, show_default=True, help="How many, one after the other.")
@click.option("--steps", type=int, default=1_000, show_default=True, help="Acts of each before the calm end.")
@click.option("--plan", type=click.Choice([plan.value for plan in Plan]), default="queues", show_default=True)
@click.option("--history", is_flag=True, help="Print the history of a seed that holds, too.")
def main(seed: int, seeds: int, steps: int, plan: str, history: bool) -> None:
    """Play simulated sidecars; exit 1 when a promise was broken."""
    broken = 0
    for number in range(seed, seed + seeds):
        simulation = Simulation(number, steps, Plan(plan))
        try:
            simulation.run()
        except BrokenPromiseError as error:
            broken += 1
            click.echo(f"seed {number}: {error}\n")
        else:
            if history:
                click.echo("\n".join(simulation.world.history))
            click.echo(simulation.summary())
    sys.exit(1 if broken else 0)


main()
