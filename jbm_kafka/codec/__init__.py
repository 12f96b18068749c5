"""Between bytes and values: record headers, bodies, changelog entries, events. docs/topics.md is what it follows."""
