"""Slack listeners, filed by Slack feature; each ends in milliseconds."""
