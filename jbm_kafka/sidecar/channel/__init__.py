"""One channel that this process owns: its state, what it has recorded, and how it is opened."""
