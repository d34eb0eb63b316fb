"""Twins of handlers/: the real app, the strict stand-in Slack behind it."""
