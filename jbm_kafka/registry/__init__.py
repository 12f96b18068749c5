"""The state that all processes of a namespace agree on, and how they ask each other."""
