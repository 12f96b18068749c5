"""Branches of transactions of several systems: who decides, and what is known of them."""
