"""Address settings: patterns, rules and the values in force."""
