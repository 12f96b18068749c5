"""What a sidecar keeps on its own disk, and how a channel is rebuilt. All of it is a cache of Kafka's topics."""
