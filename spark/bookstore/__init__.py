"""A bookstore's pipeline, to be copied: README.md tells what each file is. `python -m bookstore` plays all of it."""
