"""Schedules: when a line of cron is due, and what is due of one now: decision 114."""
