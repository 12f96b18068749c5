"""The sidecar as a server of AMQP 1.0: any client of that protocol is a client of ours (decision 74)."""
