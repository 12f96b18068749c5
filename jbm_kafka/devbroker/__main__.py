"""`python -m jbm_kafka.devbroker`: fetches Kafka's jars if need be and prints their folder, for make and the image.

Then it sees to the archive of the broker's classes, without which everything works and starts later.
"""

import subprocess
import sys
from contextlib import suppress

from jbm_kafka.devbroker.broker_error import LocalBrokerError
from jbm_kafka.devbroker.broker_jars import ensure_jars
from jbm_kafka.devbroker.class_archive import ensure_archive


def main() -> int:
    """0 with the folder on standard output; 1 with one line on standard error when it cannot be had."""
    try:
        jars = ensure_jars()
    except (LocalBrokerError, OSError, subprocess.TimeoutExpired) as error:
        print(f"jbm-kafka: {error}", file=sys.stderr)
        return 1
    print(jars)
    with suppress(LocalBrokerError, OSError, subprocess.TimeoutExpired):
        ensure_archive(jars)
    return 0


if __name__ == "__main__":
    sys.exit(main())
