"""`python -m jbm_spark.cli JOB ...`, the same as `jbm-spark JOB ...`."""

import sys

from jbm_spark.cli.job_command import main

sys.exit(main())
