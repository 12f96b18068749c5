"""The bookstore: `jbm-kafka demo` shows what a queue with units of order promises, and checks it from the topics."""
