"""The sidecar: carries values between Kafka, the channels of `core` and receivers. It decides nothing itself."""
