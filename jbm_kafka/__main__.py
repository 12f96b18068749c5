"""`python -m jbm_kafka`: the command `jbm-kafka`."""

import sys

from jbm_kafka.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
