"""A store beside the sender: sends succeed while Kafka is away, and are forwarded when it is there (decision 121)."""
