"""The rules of what a receiver has in hand: decision 102."""
