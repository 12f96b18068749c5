"""For tests of applications: a Kafka in memory with a clock that stands still, a real broker, and pytest's fixtures.

The page docs/testing.md tells how. Nothing is imported here: pytest loads the plugin in every project.
"""
