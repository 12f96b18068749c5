"""Asking the processes that own partitions, and standing in where there is none."""
