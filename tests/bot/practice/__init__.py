"""Twins of bot/practice/."""
