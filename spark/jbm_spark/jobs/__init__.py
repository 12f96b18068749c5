"""The jobs operators want. Each module: a figure computed from a DataFrame, and a `main` for the command line."""
