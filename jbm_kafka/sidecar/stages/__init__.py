"""The stages of an owner's turn: settle, hand over, send away, keep within memory, freeze."""
