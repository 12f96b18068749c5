"""One partition of a queue or subscription as a pure machine: its states, decisions and memory."""
