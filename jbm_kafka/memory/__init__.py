"""The ports of `jbm_kafka.ports` without Kafka and without a disk; the real ones pass the same contract tests."""
