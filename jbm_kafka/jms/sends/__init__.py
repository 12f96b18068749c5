"""The parts of a send: its headers, its unit and partition, its order and its report."""
