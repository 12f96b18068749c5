"""Private subscriptions: one reader of a topic for all of a process, and channels that are written nowhere."""
