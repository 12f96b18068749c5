"""The command `jbm-kafka`: thin commands over the library."""
