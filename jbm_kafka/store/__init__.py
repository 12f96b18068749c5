"""The files that a sidecar keeps on its own disk, and the rebuilding of a channel. All of it is a cache of Kafka's
topics."""
