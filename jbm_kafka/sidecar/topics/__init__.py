"""The topics that this process uses, looked at again and again."""
