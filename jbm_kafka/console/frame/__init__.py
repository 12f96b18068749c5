"""The frame that all parts of the console share: the cluster that it looks at, who looks, its pages, its actions.

A part is a folder beside this one. It has functions over `Admin` that take `(Console, Viewer, asked)` and return a
pydantic model, `View`s that name them (`view.py`: one function is the page and its JSON), and `Action`s (`action.py`).
`app.py` lists both, and `NAVIGATION` of `rendering.py` the views that stand in the page's list.
"""
