"""A seeded simulation of whole sidecars over the in-memory Kafka, in one thread and without real time.

python -m jbm_kafka.testing.simulation --seed 7 --steps 1500

Every seed draws its own weather (`profile`), plays act after act (`acts`), and after each act checks what must hold
(`invariants`, `at_hand_over`) against what a recorder wrote down of it (`paper`, `views`).
"""

from jbm_kafka.testing.simulation.run import BrokenPromiseError, Simulation

__all__ = ["Simulation", "BrokenPromiseError"]
