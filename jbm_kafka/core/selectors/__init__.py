"""The language in which consumers, browsers and operators say which messages they want. docs/selectors.md describes it.

Text becomes tokens, tokens a tree of conditions and values, a tree a function: each step is a file.
"""
