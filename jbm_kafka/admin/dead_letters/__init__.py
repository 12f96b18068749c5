"""Dead letters: found, listed, sent again."""
