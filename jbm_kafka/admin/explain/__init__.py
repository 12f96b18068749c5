"""Why nothing moves: what a queue or subscription holds, who has it, and what keeps it."""
