"""Rules that every kind of application needs: asyncio sessions, and clients that speak AMQP."""
