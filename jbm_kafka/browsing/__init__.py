"""What a queue or subscription holds, computed from its topic and changelog without receiving."""
