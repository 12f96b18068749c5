"""A package, so that its shared sidecar ends with its last test."""
