"""The way of a message from a link to a receive, a listener or a handler."""
