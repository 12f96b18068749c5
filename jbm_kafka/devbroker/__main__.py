"""`python -m jbm_kafka.devbroker`: fetches Kafka's jars if need be and prints their folder, for make and the image."""

import subprocess
import sys

from jbm_kafka.devbroker.errors import LocalBrokerError
from jbm_kafka.devbroker.jars import ensure_jars


def main() -> int:
    """0 with the folder on standard output; 1 with one line on standard error when it cannot be had."""
    try:
        print(ensure_jars())
    except (LocalBrokerError, OSError, subprocess.TimeoutExpired) as error:
        print(f"jbm-kafka: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
