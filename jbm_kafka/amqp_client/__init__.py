"""The provider of `amqp://`: the API over AMQP 1.0, against a standalone sidecar or another broker."""
