"""Why nothing moves: what a queue or subscription holds, which process has it, and what keeps it."""
